//! Citations.

use std::sync::Arc;

use patterns::{Check, Flow, Gated, Reply, Request};

use super::tree;

#[test]
fn citations_are_found_and_held_against_the_files() {
    let (_dir, repository) =
        tree(&[("src/a.rs", "one\ntwo\nthree\n"), ("Makefile", "all:\n"), (".env", "KEY=1")]);
    let text = "It starts in `src/a.rs:2`, goes on (src/a.rs:2-3), see Makefile:1 and [src/a.rs:1]. \
                Not so: src/b.rs:1, src/a.rs:4, ../x.rs:1, .env:1, src/a.rs:3-2. No citations: http://localhost:8080, \
                127.0.0.1:80, 12:30, note:1, at https://example.com:443/x.";
    let found = repository.citations(text);
    let seen: Vec<_> = found
        .iter()
        .map(|c| (c.path.as_str(), c.first, c.last, c.lines.as_ref().map(Vec::len).map_err(|_| ())))
        .collect();
    assert_eq!(
        seen,
        [
            ("src/a.rs", 2, 2, Ok(1)),
            ("src/a.rs", 2, 3, Ok(2)),
            ("Makefile", 1, 1, Ok(1)),
            ("src/a.rs", 1, 1, Ok(1)),
            ("src/b.rs", 1, 1, Err(())),
            ("src/a.rs", 4, 4, Err(())),
            ("../x.rs", 1, 1, Err(())),
            (".env", 1, 1, Err(())),
            ("src/a.rs", 3, 2, Err(())),
        ]
    );
    assert_eq!(found[1].lines, Ok(vec!["two".to_owned(), "three".to_owned()]));
    assert_eq!(
        repository.cited_lines("src/a.rs:2-3, x/y.rs:9"),
        "src/a.rs:2: two\nsrc/a.rs:3: three\nx/y.rs:9: none (there is no `x/y.rs`; in the root there is Makefile, src/)\n"
    );
}

#[tokio::test]
async fn an_answer_with_a_wrong_citation_does_not_pass() {
    let (_dir, repository) = tree(&[("a.rs", "one\n")]);
    let repository = Arc::new(repository);
    for (answer, reason) in [
        ("It is in a.rs:1.", None),
        (
            "It is in a.rs:1 and a.rs:2.",
            Some("a.rs:2 does not exist (`a.rs` has 1 lines; there is no line 2)"),
        ),
        ("It is nowhere.", None),
    ] {
        let llm = async |_: Request| Ok(Reply::text_of(answer));
        let check: Check<'_> = repository.citations_exist();
        let result = "Where?".gate_by("cites", check).run(&llm, "").await;
        assert_eq!(
            result.err().and_then(|error| Some(error.cause::<Gated>()?.reason.clone())).as_deref(),
            reason
        );
    }
}
