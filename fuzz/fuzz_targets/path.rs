//! Whatever a model writes as a path: nothing outside of the root is read, no secret inside, and nothing panics.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use patterns::{ListFiles, ReadFile, Repository, Search};

const SECRET: &str = "OUTSIDE-7f3a";

/// A root with traps in it, and what must not be read beside it. It lasts as long as the process.
static REPOSITORY: LazyLock<Repository> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("patterns-fuzz-{}", std::process::id()));
    let root = folder.join("r");
    for (path, text) in [
        ("x", SECRET),
        ("o/x", SECRET),
        ("r/.env", SECRET),
        ("r/.git/config", SECRET),
        ("r/i", SECRET),
        ("r/.gitignore", "i\n"),
        ("r/a/b", "inside"),
        ("r/.e/v", "inside"),
    ] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for (target, link) in [("../x", "l"), ("../o", "d"), (".env", "e"), ("/", "s"), ("..", "u"), (".", "h")] {
        let _ = std::os::unix::fs::symlink(target, root.join(link));
    }
    Repository::open(&root).unwrap()
});

fuzz_target!(|path: &str| {
    // a message names the path, so one that holds the secret says nothing
    if path.contains(SECRET) || path.contains("root:x:") {
        return;
    }
    let read = REPOSITORY.read_file(&ReadFile { path: path.to_owned(), ..ReadFile::default() });
    let list = REPOSITORY.list_files(&ListFiles { path: Some(path.to_owned()), glob: None });
    let search = REPOSITORY.search(&Search { pattern: "E-7".to_owned(), path: Some(path.to_owned()), glob: None });
    for answer in [&read, &list, &search] {
        let (Ok(text) | Err(text)) = answer;
        assert!(!text.contains(SECRET) && !text.contains("root:x:"), "{path:?}: {text}");
        assert!(!text.is_empty());
    }
    if let Ok(text) = read {
        assert!(text == "1| inside\n" || text == "1| i\n", "{path:?} reads {text:?}");
    }
    // a citation of it is one or none, and exists only inside
    for citation in REPOSITORY.citations(&format!("see {path}:1 {path}")) {
        assert!(!citation.path.is_empty());
        if let Ok(lines) = citation.lines {
            assert!(!lines.iter().any(|line| line.contains(SECRET)), "{path:?}");
        }
    }
});
