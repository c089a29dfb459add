//! What list, read and search show.

use std::time::{Duration, Instant};

use patterns::{Flow, ListFiles, ReadFile, Reply, Request, Search};
use serde_json::json;

use super::{list, read, search, tree};

#[test]
fn files_are_listed_in_order_without_what_is_ignored_or_secret() {
    let (_dir, repository) = tree(&[
        ("src/main.rs", "fn main() {}"),
        ("src/deep/er/x.py", "x = 1"),
        ("README.md", "# Bees"),
        (".gitignore", "target/\n*.log\n!keep.log\n/only_root.txt\n"),
        ("target/debug/out.rs", "generated"),
        ("a.log", "log"),
        ("keep.log", "log"),
        ("only_root.txt", "x"),
        ("sub/only_root.txt", "x"),
        ("sub/.gitignore", "*.tmp\n!important.tmp"),
        ("sub/a.tmp", "x"),
        ("sub/important.tmp", "x"),
        (".env", "KEY=1"),
        ("keys/server.pem", "---"),
        (".git/config", "[core]"),
        (".git/info/exclude", "excluded.txt"),
        ("excluded.txt", "x"),
        (".github/ci.yml", "on: push"),
    ]);
    assert_eq!(
        list(&repository, "").unwrap().lines().collect::<Vec<_>>(),
        [
            ".github/ci.yml",
            ".gitignore",
            "README.md",
            "keep.log",
            "src/deep/er/x.py",
            "src/main.rs",
            "sub/.gitignore",
            "sub/important.tmp",
            "sub/only_root.txt",
        ]
    );
    assert_eq!(list(&repository, "./src/").unwrap(), "src/deep/er/x.py\nsrc/main.rs");
    assert_eq!(
        list(&repository, "sub").unwrap().lines().count(),
        3,
        "the rules of the folders above hold, too"
    );
    let glob = |glob: &str| {
        repository.list_files(&ListFiles { glob: Some(glob.to_owned()), ..ListFiles::default() }).unwrap()
    };
    assert_eq!(glob("*.rs"), "src/main.rs");
    assert_eq!(glob("src/**/*.py"), "src/deep/er/x.py");
    assert_eq!(glob("*.java"), "no files (what .gitignore leaves out and files of secrets are not listed)");
    for ignored in ["target/debug/out.rs", "a.log", "sub/a.tmp", "target"] {
        let message = read(&repository, ignored).unwrap_err();
        assert!(message.contains("is left out by .gitignore"), "{ignored}: {message}");
    }
}

#[test]
fn lines_are_numbered_and_at_most_four_hundred() {
    let text: String = (1..=1_000).map(|n| format!("line {n}\n")).collect();
    let (_dir, repository) =
        tree(&[("a.txt", &text), ("crlf.txt", "one\r\ntwo"), ("empty", ""), ("bin", "a\0b")]);
    let page = |first, lines| {
        repository.read_file(&ReadFile { path: "a.txt".into(), first_line: Some(first), lines: Some(lines) })
    };
    let all = read(&repository, "a.txt").unwrap();
    assert_eq!(all.lines().count(), 401);
    assert!(all.starts_with("1| line 1\n2| line 2\n"), "{all}");
    assert!(all.ends_with("400| line 400\n[lines 1 to 400 of 1000; go on with first_line 401]\n"), "{all}");
    assert_eq!(page(999, 9).unwrap(), "999| line 999\n1000| line 1000\n");
    assert_eq!(page(1, 5_000).unwrap().lines().count(), 401);
    assert_eq!(page(1_001, 1).unwrap_err(), "`a.txt` has 1000 lines; there is no line 1001");
    assert_eq!(read(&repository, "crlf.txt").unwrap(), "1| one\n2| two\n");
    assert_eq!(read(&repository, "empty").unwrap(), "(the file is empty)");
    assert_eq!(read(&repository, "bin").unwrap_err(), "`bin` is no text file");
}

#[test]
fn a_search_gives_places_and_zero_is_not_a_failure() {
    let many: String = (0..150).map(|n| format!("needle {n}\n")).collect();
    let (_dir, repository) = tree(&[
        ("src/config.rs", "use x;\npub fn load_config() {}\n// load_config is called once\n"),
        ("src/main.rs", "fn main() { config::load_config(); }"),
        ("many.txt", &many),
        ("bin", "needle\0"),
        ("long.txt", &format!("{}hay", "x".repeat(5_000))),
        (".env", "needle=1"),
    ]);
    assert_eq!(search(&repository, "fn load_config").unwrap(), "src/config.rs:2: pub fn load_config() {}");
    let inside = Search { pattern: "load_config".into(), path: Some("src/main.rs".into()), glob: None };
    assert_eq!(repository.search(&inside).unwrap(), "src/main.rs:1: fn main() { config::load_config(); }");
    let by_glob = Search { pattern: "load_config".into(), path: None, glob: Some("main.*".into()) };
    assert_eq!(repository.search(&by_glob).unwrap().lines().count(), 1);
    assert_eq!(search(&repository, "wasps").unwrap(), "no line of 4 files matches `wasps`");
    let found = search(&repository, "needle").unwrap();
    assert_eq!(found.lines().count(), 101);
    assert!(found.ends_with("[the first 100 lines; use a narrower pattern, or `path` or `glob`]"), "{found}");
    assert!(search(&repository, "hay").unwrap().len() < 400, "a long line is cut");
    let message = search(&repository, "load_config(").unwrap_err();
    assert!(
        message.contains("is no regular expression") && message.contains("put a `\\` before ("),
        "{message}"
    );
}

#[test]
fn a_path_that_is_not_there_is_answered_by_what_is() {
    let (_dir, repository) =
        tree(&[("src/config.rs", "x"), ("src/main.rs", "x"), ("src/.env", "x"), ("src/deep/a", "x")]);
    assert_eq!(
        read(&repository, "src/confg.rs").unwrap_err(),
        "there is no `src/confg.rs`; in src there is config.rs, deep/, main.rs"
    );
    assert_eq!(
        read(&repository, "lib/x.rs").unwrap_err(),
        "there is no `lib/x.rs`; in the root there is src/"
    );
    assert_eq!(read(&repository, "src").unwrap_err(), "`src` is a folder; list it with list_files");
    assert_eq!(
        list(&repository, "src/main.rs").unwrap_err(),
        "`src/main.rs` is a file; read it with read_file"
    );
    assert_eq!(
        read(&repository, "src/main.rs/x").unwrap_err(),
        "`src/main.rs` is a file, so there is no `src/main.rs/x`"
    );
}

#[tokio::test]
async fn a_repository_tool_is_a_step_of_a_workflow() {
    let (_dir, repository) = tree(&[("NOTES.md", "Bees dance.\n")]);
    let read = repository.tools().into_iter().find(|tool| tool.name() == "read_file").unwrap();
    let llm = async |request: Request| Ok(Reply::text_of(request.text()));
    let summary = read.then("Summarize: {input}");
    let text = summary.run(&llm, &json!({"path": "NOTES.md"}).to_string()).await.unwrap();
    assert_eq!(text, "Summarize: 1| Bees dance.\n");
}

#[tokio::test]
async fn the_tools_hold_their_arguments_against_their_schemas() {
    let (_dir, repository) = tree(&[("a.txt", "x")]);
    let llm = async |_: Request| Ok(Reply::default());
    for tool in repository.tools() {
        assert!(!tool.has_effects());
        assert!(
            tool.call(&llm, json!({"file": "a.txt"})).await.unwrap_err().contains("`file` is no argument")
        );
    }
    let read = &repository.tools()[1];
    assert_eq!(read.call(&llm, json!({"path": "a.txt"})).await.unwrap(), "1| x\n");
    let message = read.call(&llm, json!({"path": "a.txt", "lines": 500})).await.unwrap_err();
    assert!(message.contains("`lines` must be at most 400, not 500"), "{message}");
}

#[test]
fn a_root_that_is_no_folder_is_an_error_that_names_it() {
    let error = patterns::Repository::open("/nowhere/at/all").unwrap_err();
    assert_eq!(error.kind(), patterns::ErrorKind::Io);
    assert!(error.message().contains("/nowhere/at/all"), "{error}");
}

#[test]
fn read_and_search_agree_on_the_lines_of_any_text() {
    let utf16: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain("one\r\nneedle é\r\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let (dir, repository) =
        tree(&[("bom.txt", "\u{feff}needle\ntwo\n"), ("cr.txt", "a\rneedle\u{2028}b\nneedle")]);
    std::fs::write(dir.path().join("utf16.txt"), utf16).unwrap();
    std::fs::write(dir.path().join("latin1.txt"), b"caf\xe9\nneedle \xff\xfe\n").unwrap();
    assert_eq!(read(&repository, "bom.txt").unwrap(), "1| needle\n2| two\n");
    assert_eq!(read(&repository, "utf16.txt").unwrap(), "1| one\n2| needle é\n");
    assert_eq!(read(&repository, "latin1.txt").unwrap(), "1| caf\u{fffd}\n2| needle \u{fffd}\u{fffd}\n");
    assert_eq!(read(&repository, "cr.txt").unwrap().lines().count(), 2);
    // whether a file is text is no matter of where in its first block a zero byte stands, nor of who asks
    for (at, is_text) in [(0, false), (1, false), (4, false), (100, false), (7_999, false), (8_000, true)] {
        let mut bytes = "x\n".repeat(10_000).into_bytes();
        bytes.extend(b"late needle\n");
        bytes[at] = 0;
        std::fs::write(dir.path().join("zero"), bytes).unwrap();
        assert_eq!(read(&repository, "zero").is_ok(), is_text, "{at}");
        let late = Search { pattern: "late".into(), path: Some("zero".into()), glob: None };
        let found = repository.search(&late);
        let expected = if is_text {
            Ok("zero:10001: late needle".to_owned())
        } else {
            Err("`zero` is no text file".to_owned())
        };
        assert_eq!(found, expected, "{at}");
    }
    std::fs::remove_file(dir.path().join("zero")).unwrap();
    let found = search(&repository, "needle").unwrap();
    let places: Vec<_> = found.lines().map(|line| line.rsplit_once(": ").unwrap().0).collect();
    assert_eq!(places, ["bom.txt:1", "cr.txt:1", "cr.txt:2", "latin1.txt:2", "utf16.txt:2"]);
    assert_eq!(search(&repository, "^needle$").unwrap(), "bom.txt:1: needle\ncr.txt:2: needle");
}

#[test]
fn a_file_that_is_too_long_is_not_said_to_end() {
    let (dir, repository) = tree(&[]);
    let line = format!("{}\n", "x".repeat((1 << 20) - 1));
    std::fs::write(dir.path().join("long.txt"), line.repeat(70)).unwrap();
    let page = repository
        .read_file(&ReadFile { path: "long.txt".into(), first_line: Some(3), lines: Some(1) })
        .unwrap();
    assert!(page.len() < 2_200, "a line is cut");
    assert!(
        page.ends_with(" [line cut]\n[lines 3 to 3 of more than 64; go on with first_line 4]\n"),
        "{page}"
    );
    assert_eq!(
        search(&repository, "wasps").unwrap(),
        "no line of 1 files matches `wasps`\n[1 files could not be read to their end]"
    );
    let beyond = ReadFile { path: "long.txt".into(), first_line: Some(66), lines: None };
    assert_eq!(
        repository.read_file(&beyond).unwrap_err(),
        "`long.txt` is too long; line 66 is beyond its first 64 MiB, 64 lines"
    );
}

/// Neither a pattern nor the files can make a search go on for ever.
#[test]
fn a_pattern_that_explodes_elsewhere_is_refused_or_takes_no_time() {
    let (_dir, repository) = tree(&[("a.txt", &format!("{}\n", "abcdefgh ".repeat(100)).repeat(200))]);
    for pattern in [r"(a*)*b$", r"(x+x+)+y", r"(?:a?){200}a{200}", r"([a-h]{1,20}){1,20}\d", r"(.*)*(.*)*\d"]
    {
        let start = Instant::now();
        let answer = search(&repository, pattern).unwrap();
        assert_eq!(answer, format!("no line of 1 files matches `{pattern}`"));
        assert!(start.elapsed() < Duration::from_secs(60), "{pattern}: {:?}", start.elapsed());
    }
    for pattern in [r"(\w{1,90}){1,90}", r"\p{L}{900}{900}", r"((((\w{1,9}){9}){9}){9}){9}"] {
        let message = search(&repository, pattern).unwrap_err();
        assert!(
            message
                .ends_with(r"is too large; use smaller counts in { }, or `[a-z]` in place of `\w` or `\p`"),
            "{message}"
        );
    }
}

#[test]
fn a_line_that_is_too_long_to_be_searched_is_told() {
    let (_dir, repository) = tree(&[("a.txt", "needle\n"), ("min.js", &"x".repeat(40 << 20))]);
    assert_eq!(
        search(&repository, "needle").unwrap(),
        "a.txt:1: needle\n[1 files could not be read to their end]"
    );
}

#[test]
fn a_look_whose_time_is_over_says_so_and_not_that_there_is_nothing() {
    let (_dir, repository) = tree(&[("a.txt", "needle\n"), ("b/c.txt", "needle\n")]);
    let repository = repository.longest(Duration::ZERO);
    assert_eq!(
        search(&repository, "needle").unwrap(),
        "[stopped after 0 s, there may be more; search a subfolder with `path`]"
    );
    assert_eq!(
        list(&repository, "").unwrap(),
        "[stopped after 0 s, there may be more; ask for a subfolder with `path`]"
    );
    assert!(read(&repository, "a.txt").unwrap().contains("needle"));
}

/// What cannot be looked at is told, so that nobody takes it for looked at and empty.
#[cfg(unix)]
#[test]
fn what_cannot_be_looked_at_is_told() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    let (dir, repository) = tree(&[("a.txt", "needle"), (".env", "needle"), ("new\nline.txt", "needle")]);
    let at = |name: &[u8]| dir.path().join(OsStr::from_bytes(name));
    symlink("a.txt", at(b"link")).unwrap();
    let note = "[not looked at: 1 file or folder not readable, on another file system, too deep, or with a name that \
                cannot be written]";
    assert_eq!(list(&repository, "").unwrap(), format!("a.txt\n{note}"));
    if std::fs::write(at(b"latin\xe9"), "needle").is_err() {
        return; // a file system that has no such names
    }
    std::fs::create_dir(at(b"caf\xe9")).unwrap();
    std::fs::write(at(b"caf\xe9/inside"), "needle").unwrap();
    let note = note.replace("1 file or folder", "3 files or folders");
    assert_eq!(list(&repository, "").unwrap(), format!("a.txt\n{note}"));
    assert_eq!(search(&repository, "needle").unwrap(), format!("a.txt:1: needle\n{note}"));
    assert_eq!(search(&repository, "wasps").unwrap(), format!("no line of 1 files matches `wasps`\n{note}"));
    // the deepest folder that is looked into is the 64th
    let deep = dir.path().join("d/".repeat(65));
    std::fs::create_dir_all(&deep).unwrap();
    assert!(
        list(&repository, "d").unwrap().contains("no files")
            && !list(&repository, "d").unwrap().contains("not looked")
    );
    std::fs::create_dir_all(deep.join("d")).unwrap();
    std::fs::write(deep.join("d/x"), "needle").unwrap();
    assert!(
        list(&repository, "").unwrap().contains("4 files or folders"),
        "{}",
        list(&repository, "").unwrap()
    );
}

#[test]
fn a_tree_of_very_many_files_gives_bounded_answers_in_time() {
    let (dir, repository) = tree(&[]);
    for n in 0..4_000 {
        if n % 100 == 0 {
            std::fs::create_dir(dir.path().join(format!("{}", n / 100))).unwrap();
        }
        std::fs::write(dir.path().join(format!("{}/{n}.txt", n / 100)), format!("needle {n}\n")).unwrap();
    }
    let start = Instant::now();
    let all = list(&repository, "").unwrap();
    assert_eq!(all.lines().count(), 1_001);
    assert!(all.ends_with("[3000 more files; ask for a subfolder with `path`, or use `glob`]"), "{all}");
    assert_eq!(search(&repository, "needle").unwrap().lines().count(), 101);
    assert_eq!(search(&repository, "needle 3999$").unwrap(), "39/3999.txt:1: needle 3999");
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}
