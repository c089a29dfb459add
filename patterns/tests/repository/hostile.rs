//! Paths that want out.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use patterns::{Repository, Search};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{list, read, search, write};

/// Stands in every file that must not be read.
const SECRET: &str = "OUTSIDE-7f3a";

/// A folder with a root that has traps in it, and secrets beside it.
struct Trap {
    _dir: TempDir,
    repository: Repository,
    _socket: UnixListener,
}

fn trap() -> Trap {
    let dir = TempDir::new().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    write(&outside, &[("treasure.txt", SECRET), ("deep/treasure.txt", SECRET)]);
    write(
        &root,
        &[
            ("src/main.rs", "fn main() {}"),
            ("src/%2e%2e", "a name, not a way up"),
            (".gitignore", "ignored.txt\n"),
            ("ignored.txt", SECRET),
            (".env", SECRET),
            (".env.local", SECRET),
            ("conf/.ENV", SECRET),
            ("conf/prod.env.", SECRET),
            ("conf/credentials.json", SECRET),
            ("keys/id_rsa", SECRET),
            ("keys/server.pem", SECRET),
            (".git/config", SECRET),
            (".ssh/known_hosts", SECRET),
            (".npmrc", SECRET),
        ],
    );
    for (target, link) in [
        ("../outside/treasure.txt", "link_out"),
        ("../outside", "link_dir"),
        ("/etc/passwd", "link_abs"),
        (".env", "link_env"),
        ("src/main.rs", "link_in"),
        ("src", "link_src"),
        ("loop_b", "loop_a"),
        ("loop_a", "loop_b"),
        (".", "here"),
        ("..", "up"),
        ("/dev/zero", "zero"),
        ("/proc/self/environ", "environ"),
        ("/proc/self/root", "proc_root"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    symlink("../../outside/treasure.txt", root.join("src/link_out")).unwrap();
    let fifo = Command::new("mkfifo").arg(root.join("fifo")).status().unwrap();
    assert!(fifo.success());
    let socket = UnixListener::bind(root.join("socket")).unwrap();
    let repository = Repository::open(&root).unwrap();
    Trap { _dir: dir, repository, _socket: socket }
}

const HOSTILE: [&str; 79] = [
    // upwards
    "..",
    "../outside/treasure.txt",
    "src/../../outside/treasure.txt",
    "src/../../../../../../../etc/passwd",
    "./../outside/treasure.txt",
    "src/./../../outside/treasure.txt",
    "src//..//..//outside/treasure.txt",
    "../root/../outside/treasure.txt",
    ".../outside",
    ".. /outside/treasure.txt",
    ". ./outside",
    "..\u{200b}/outside/treasure.txt",
    "src/..",
    // absolute
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "/dev/stdin",
    "/dev/zero",
    "~/.ssh/id_rsa",
    "~root/.bashrc",
    "C:/Windows/win.ini",
    "C:\\Windows\\win.ini",
    "\\\\server\\share",
    "file:///etc/passwd",
    // other spellings of dots and slashes
    "..\\outside\\treasure.txt",
    "src\\..\\..\\outside\\treasure.txt",
    "%2e%2e/outside/treasure.txt",
    "%2e%2e%2foutside%2ftreasure.txt",
    "..%2foutside/treasure.txt",
    "..%5coutside",
    "%252e%252e/outside/treasure.txt",
    "..%c0%afoutside/treasure.txt",
    "\u{ff0e}\u{ff0e}/outside/treasure.txt",
    "\u{2024}\u{2024}/outside/treasure.txt",
    "..\u{2215}outside\u{2215}treasure.txt",
    "\u{202e}../outside/treasure.txt",
    "${HOME}/.ssh/id_rsa",
    "$(cat /etc/passwd)",
    "`cat /etc/passwd`",
    "src/main.rs;cat /etc/passwd",
    "|cat /etc/passwd",
    "*",
    // control characters
    "../outside/treasure.txt\0.rs",
    "src/main.rs\0",
    "\n../outside/treasure.txt",
    "src\r/../../outside/treasure.txt",
    "\u{1b}[31m",
    // links
    "link_out",
    "src/link_out",
    "link_dir",
    "link_dir/treasure.txt",
    "link_dir/deep/treasure.txt",
    "link_abs",
    "link_env",
    "link_in",
    "link_src/main.rs",
    "link_src/link_out",
    "loop_a",
    "loop_a/x",
    "here/here/here/.env",
    "up/outside/treasure.txt",
    "here/up/outside/treasure.txt",
    "proc_root/etc/passwd",
    // no regular files
    "fifo",
    "socket",
    "zero",
    "environ",
    // secrets inside
    ".env",
    ".ENV",
    ".env.local",
    "./.env",
    "src/../.env",
    "conf/.ENV",
    "conf/prod.env.",
    "conf/credentials.json",
    "keys/id_rsa",
    "keys/server.pem",
    ".git/config",
];

#[test]
fn nothing_outside_is_read_and_nothing_hangs() {
    let trap = trap();
    let repository = &trap.repository;
    for path in HOSTILE.into_iter().chain([".ssh/known_hosts", ".npmrc", "ignored.txt", &"../".repeat(2_000)])
    {
        let start = Instant::now();
        let answer = read(repository, path);
        assert!(answer.is_err(), "{path:?} was read: {answer:?}");
        let inside = Search { pattern: ".".into(), path: Some(path.to_owned()), glob: None };
        for answer in [answer, list(repository, path), repository.search(&inside)] {
            let text = answer.unwrap_or_else(|message| message);
            assert!(
                !text.contains(SECRET) && !text.contains("root:x:") && !text.contains("PATH="),
                "{path:?}: {text}"
            );
            assert!(!text.is_empty(), "{path:?} is answered by a message that teaches");
        }
        // what hangs hangs for ever; a busy machine is only slow
        assert!(start.elapsed() < Duration::from_secs(60), "{path:?} took {:?}", start.elapsed());
    }
    assert_eq!(read(repository, "src/%2e%2e").unwrap(), "1| a name, not a way up\n", "nothing is decoded");
}

#[test]
fn a_walk_finds_no_secret_and_follows_no_link() {
    let trap = trap();
    let everything = list(&trap.repository, "").unwrap();
    assert_eq!(
        everything.lines().collect::<Vec<_>>(),
        [".gitignore", "src/%2e%2e", "src/main.rs"],
        "no links, pipes, sockets or secrets"
    );
    assert_eq!(search(&trap.repository, SECRET).unwrap(), format!("no line of 3 files matches `{SECRET}`"));
}

#[test]
fn messages_teach() {
    let trap = trap();
    for (path, part) in [
        ("/etc/passwd", "give a path relative to the root, as list_files shows it"),
        ("../x", "leads upwards with `..`"),
        ("a\\b", "has a `\\` in it"),
        (".env", "may hold secrets"),
        ("link_in", "is a symbolic link, and links are not followed; use `src/main.rs`"),
        ("link_src/main.rs", "use `src/main.rs`"),
        ("link_dir/treasure.txt", "leads out of the root, and is not followed"),
        ("link_env", "leads out of the root, and is not followed"),
        ("fifo", "it is no regular file (a pipe, socket or device)"),
        ("ignored.txt", "left out by .gitignore"),
    ] {
        let message = read(&trap.repository, path).unwrap_err();
        assert!(message.contains(part), "{path}: {message}");
        assert!(!message.contains("outside"), "{path}: where a link leads outside is not told: {message}");
    }
}

/// Lets `swap` change what stands at a path while `read` reads it: for a while, and until `enough` was seen.
fn race(swap: impl Fn() + Sync, read: impl Fn(), enough: impl Fn() -> bool) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap();
            }
        });
        let start = Instant::now();
        let lasted = |time| start.elapsed() > Duration::from_millis(time);
        while !(lasted(300_000) || lasted(1_500) && enough()) {
            read();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Puts `other` in the place of `at`, and takes it away again. Renaming is all that is fast enough to hit the moment
/// between a look and the opening.
fn swap(at: &Path, other: &Path) {
    let aside = at.with_extension("aside");
    for (from, to) in [(at, &*aside), (other, at), (at, other), (&*aside, at)] {
        fs::rename(from, to).unwrap();
    }
}

#[test]
fn a_link_swapped_in_during_the_call_is_not_followed() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    write(
        dir.path(),
        &[
            ("outside/treasure.txt", SECRET),
            ("root/.env", SECRET),
            ("root/x.txt", "inside"),
            ("root/real/treasure.txt", "inside"),
        ],
    );
    symlink(".env", root.join("link_env")).unwrap();
    symlink("../outside", root.join("link_dir")).unwrap();
    let repository = Repository::open(&root).unwrap();
    for (at, other) in [("x.txt", "link_env"), ("real", "link_dir")] {
        let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
        race(
            || swap(&root.join(at), &root.join(other)),
            || {
                for answer in [
                    read(&repository, "x.txt"),
                    read(&repository, "real/treasure.txt"),
                    list(&repository, "real"),
                ] {
                    counts[usize::from(answer.is_ok())].fetch_add(1, Ordering::Relaxed);
                    let text = answer.unwrap_or_else(|message| message);
                    assert!(!text.contains(SECRET), "{at}: {text}");
                }
            },
            || counts.iter().all(|count| count.load(Ordering::Relaxed) > 10),
        );
        let [refused, seen] = counts.map(AtomicUsize::into_inner);
        assert!(
            seen > 10 && refused > 10,
            "both sides of the race were seen: {seen} read, {refused} refused"
        );
    }
}

#[test]
fn a_pipe_swapped_in_during_the_call_does_not_block() {
    let dir = TempDir::new().unwrap();
    write(dir.path(), &[("x.txt", "inside")]);
    let (file, fifo) = (dir.path().join("x.txt"), dir.path().join("fifo"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let repository = Repository::open(dir.path()).unwrap();
    let start = Instant::now();
    race(
        || swap(&file, &fifo),
        || {
            let _ = read(&repository, "x.txt");
            let _ = search(&repository, ".");
        },
        || true,
    );
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_way_of_putting_names_together_leads_outside(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "..", ".", "...", "/", "//", "\\", "src", "main.rs", "outside", "treasure.txt", "link_dir", "link_out", "here", "up",
                "proc_root", "etc", "passwd", "%2e%2e", "\u{ff0e}", "\u{200d}", " ", ".env", "root", "fifo", "~", "deep", "a:", ":",
            ]),
            0..10,
        ),
        glue in prop::sample::select(vec!["/", "", "//", "/./"]),
    ) {
        thread_local! {
            static TRAP: Trap = trap();
        }
        TRAP.with(|trap| {
            let path = pieces.join(glue);
            for answer in [read(&trap.repository, &path), list(&trap.repository, &path)] {
                let text = answer.unwrap_or_else(|message| message);
                prop_assert!(!text.contains(SECRET) && !text.contains("root:x:"), "{path:?}: {text}");
            }
            Ok(())
        })?;
    }
}
