//! What `.gitignore` leaves out.

use std::io::Read as _;

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::path::open_file;

/// The rules of a folder and of those above it, up to the root; the innermost decides.
#[derive(Default)]
pub(super) struct Ignored(Vec<Gitignore>);

impl Ignored {
    pub(super) fn of_root(root: &Dir) -> Self {
        let mut ignored = Self::default();
        if let Ok(info) = root.open_dir(".git/info") {
            ignored.0.push(rules(&info, "exclude", ""));
        }
        ignored.enter(root, "");
        ignored
    }

    /// Adds the rules of a folder.
    pub(super) fn enter(&mut self, dir: &Dir, path: &str) {
        self.0.push(rules(dir, ".gitignore", path));
    }

    /// Takes the rules of the innermost folder away.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    pub(super) fn is_ignored(&self, path: &str, is_dir: bool) -> bool {
        for rules in self.0.iter().rev() {
            match rules.matched(path, is_dir) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

/// Reads a file of rules; none, when there is no such file. Lines that are no rules are left out, as git does.
fn rules(dir: &Dir, file: &str, path: &str) -> Gitignore {
    let mut text = Vec::new();
    if let Ok(meta) = dir.symlink_metadata(file)
        && let Ok(file) = open_file(dir, file, &meta)
    {
        let _ = file.take(1 << 20).read_to_end(&mut text);
    }
    let mut builder = GitignoreBuilder::new(path);
    // where `BUILD/x` opens `build/x`, it is as ignored as that
    let _ = builder.case_insensitive(cfg!(any(windows, target_vendor = "apple")));
    for line in String::from_utf8_lossy(&text).lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
