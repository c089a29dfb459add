//! All files below a folder, in order, without following links.

use std::ops::ControlFlow;

use cap_fs_ext::{DirExt as _, MetadataExt as _};
use cap_std::fs::{Dir, Metadata};

use super::ignored::Ignored;
use super::{Clock, secret};

/// The deepest folder that is looked into, counted from where the walk starts.
const DEEPEST: usize = 64;

/// A file or folder that may be seen.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) meta: Metadata,
}

/// How many files and folders are there and cannot be looked at: nothing is known of what is in them.
#[derive(Default)]
pub(super) struct Unseen(usize);

impl Unseen {
    /// What is said of them, where there are any.
    pub(super) fn note(&self) -> Option<String> {
        let what = match self.0 {
            0 => return None,
            1 => "1 file or folder".to_owned(),
            n => format!("{n} files or folders"),
        };
        Some(format!(
            "[not looked at: {what} not readable, on another file system, too deep, or with a name that cannot be written]"
        ))
    }
}

/// What may be seen in a folder, by name: regular files and folders that are neither secret nor ignored.
pub(super) fn entries(dir: &Dir, path: &str, ignored: &Ignored, unseen: &mut Unseen) -> Vec<Entry> {
    let Ok(all) = dir.entries() else {
        unseen.0 += 1;
        return Vec::new();
    };
    let mut entries = Vec::new();
    for entry in all {
        // the metadata are those of the link itself, where it is one
        let Ok((name, meta)) = entry.and_then(|entry| Ok((entry.file_name(), entry.metadata()?))) else {
            unseen.0 += 1;
            continue;
        };
        if !meta.is_file() && !meta.is_dir() {
            continue;
        }
        match name.into_string() {
            Ok(name) if secret::is_secret(&name) => {}
            Ok(name) if !name.chars().any(|c| c.is_control() || c == '\\') => {
                if !ignored.is_ignored(&join(path, &name), meta.is_dir()) {
                    entries.push(Entry { name, meta });
                }
            }
            _ => unseen.0 += 1,
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// Shows `visit` every file below `dir`, until the time is over: its folder, its path from the root, and the entry. Gives
/// what cannot be looked at.
pub(super) fn walk(
    dir: &Dir,
    path: &str,
    ignored: &mut Ignored,
    clock: Clock<'_>,
    visit: &mut dyn FnMut(&Dir, &str, &Entry) -> ControlFlow<()>,
) -> Unseen {
    let device = dir.dir_metadata().map(|meta| meta.dev()).ok();
    let mut unseen = Unseen::default();
    let _ = below(dir, path, (0, device), ignored, &mut unseen, clock, visit);
    unseen
}

fn below(
    dir: &Dir,
    path: &str,
    (depth, device): (usize, Option<u64>),
    ignored: &mut Ignored,
    unseen: &mut Unseen,
    clock: Clock<'_>,
    visit: &mut dyn FnMut(&Dir, &str, &Entry) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for entry in entries(dir, path, ignored, unseen) {
        if clock.is_over() {
            return ControlFlow::Break(());
        }
        let inner_path = join(path, &entry.name);
        if entry.meta.is_file() {
            visit(dir, &inner_path, &entry)?;
        } else if depth < DEEPEST
            && let Ok(inner) = dir.open_dir_nofollow(&entry.name)
            && inner.dir_metadata().map(|meta| meta.dev()).ok() == device
        {
            ignored.enter(&inner, &inner_path);
            let flow = below(&inner, &inner_path, (depth + 1, device), ignored, unseen, clock, visit);
            ignored.leave();
            flow?;
        } else {
            unseen.0 += 1;
        }
    }
    ControlFlow::Continue(())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}
