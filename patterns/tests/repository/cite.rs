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

#[test]
fn whatever_stands_round_a_citation_is_no_part_of_it() {
    let (_dir, repository) = tree(&[
        ("app/[id]/page.tsx", "one\n"),
        ("(group)/x.ts", "one\n"),
        ("pkg/__init__.py", "one\ntwo\n"),
        ("a b.rs", "one\n"),
        (".github/ci.yml", "on: push\n"),
        ("com", "one\n"),
    ]);
    for (text, cited) in [
        ("**app/[id]/page.tsx:1**", &["app/[id]/page.tsx:1"][..]),
        ("([x](app/[id]/page.tsx:1))", &["app/[id]/page.tsx:1"]),
        ("load_config(pkg/__init__.py:1)", &["pkg/__init__.py:1"]),
        ("app/[id]/none.tsx:1", &["app/[id]/none.tsx:1"]),
        ("see (group)/x.ts:1, or ((group)/x.ts:1)", &["(group)/x.ts:1"]),
        ("_pkg/__init__.py:L1-L2_", &["_pkg/__init__.py:1-2"]),
        ("pkg/__init__.py:1–2.", &["pkg/__init__.py:1-2"]),
        ("[.github/ci.yml:1](x)", &[".github/ci.yml:1"]),
        ("at:pkg/__init__.py:2:5: error", &["pkg/__init__.py:2"]),
        ("pkg/__init__.py:1→pkg/__init__.py:2", &["pkg/__init__.py:1", "pkg/__init__.py:2"]),
        ("/etc/passwd:1 ~/x.rs:2 C:\\x\\y.rs:3", &["/etc/passwd:1", "~/x.rs:2", "x\\y.rs:3"]),
        ("com:1", &["com:1"]),
        ("see `a b.rs:1` and a b.rs:2, (a b.rs:3)", &["a b.rs:1", "a b.rs:2", "a b.rs:3"]),
        ("see c b.rs:1 and a  b.rs:2, a\nb.rs:3", &["b.rs:1", "b.rs:2", "b.rs:3"]),
        ("pkg/__init__.py:1,2-3, 7.", &["pkg/__init__.py:1", "pkg/__init__.py:2-3", "pkg/__init__.py:7"]),
        ("(a.rs:L3, L5–L9), [b.rs:1,2]", &["a.rs:3", "a.rs:5-9", "b.rs:1", "b.rs:2"]),
        ("a.rs:3, 7 tests; b.rs:4, 12% of c.rs:5, 1,000", &["a.rs:3", "b.rs:4", "c.rs:5"]),
        ("a.rs:3, b.rs:7, 9", &["a.rs:3", "b.rs:7", "b.rs:9"]),
        ("a.rs:3), 7, a.rs:4,5th, a.rs:5, 6.5", &["a.rs:3", "a.rs:4", "a.rs:5"]),
        ("example.com:443 db.internal:5432 api.example.org:80/v1/x.rs localhost:3 ada@example.com:25", &[]),
        ("http://localhost:8080/src/a.rs:3 https://user@h.io:1/a.rs:2", &[]),
        ("nginx.conf:1.25 v1.2:3 12:30 2026-11-30T12:30:45Z 10:30pm std::fs:3 e.g.:5 note:1 a.rs:3rd", &[]),
    ] {
        let found: Vec<_> = repository.citations(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, cited, "{text}");
    }
}

#[test]
fn a_citation_is_wrong_when_its_range_ends_past_the_file_or_begins_at_line_zero() {
    let (_dir, repository) = tree(&[("a.rs", "one\ntwo\n"), ("config/.env.local", "KEY=1\n")]);
    for (citation, reason) in [
        ("a.rs:1-2", None),
        ("a.rs:1-9", Some("`a.rs` has 2 lines; there is no line 9")),
        ("a.rs:0", Some("`a.rs` has 2 lines; there is no line 0")),
        ("a.rs:0-2", Some("`a.rs` has 2 lines; there is no line 0")),
        ("a.rs:9999999", Some("`a.rs` has 2 lines; there is no line 9999999")),
        ("a.rs:2-1", Some("2-1 is no range of lines")),
        ("config/.env.local:1", Some("`config/.env.local` may hold secrets")),
    ] {
        let found = repository.citations(&format!("It is in {citation}."));
        assert_eq!(found.len(), 1, "{citation}");
        assert_eq!(found[0].to_string(), citation);
        match (&found[0].lines, reason) {
            (Ok(lines), None) => assert_eq!(lines, &["one", "two"]),
            (Err(message), Some(reason)) => assert!(message.starts_with(reason), "{citation}: {message}"),
            (lines, _) => panic!("{citation}: {lines:?}"),
        }
    }
}

/// A file is read once, and not once for each citation of it.
#[test]
fn many_citations_of_a_long_file_are_looked_at_in_no_time() {
    let (_dir, repository) = tree(&[("long.txt", &"a line\n".repeat(200_000))]);
    let text: String = (0..3_000).map(|n| format!("long.txt:{} ", n * 60 + 1)).collect();
    let start = std::time::Instant::now();
    let found = repository.citations(&text);
    assert_eq!(found.len(), 1_000);
    assert!(found.iter().all(|c| c.lines.is_ok()));
    assert!(start.elapsed().as_secs() < 240, "{:?}", start.elapsed());
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
