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

/// What may be seen in a folder, by name: regular files and folders that are neither secret nor ignored.
pub(super) fn entries(dir: &Dir, path: &str, ignored: &Ignored) -> Vec<Entry> {
    let mut entries: Vec<Entry> = dir
        .entries()
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let meta = entry.metadata().ok()?; // of the link itself, where it is one
            let seen = (meta.is_file() || meta.is_dir())
                && !secret::is_secret(&name)
                && !name.chars().any(|c| c.is_control() || c == '\\')
                && !ignored.is_ignored(&join(path, &name), meta.is_dir());
            seen.then_some(Entry { name, meta })
        })
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// Shows `visit` every file below `dir`, until the time is over: its folder, its path from the root, and the entry.
pub(super) fn walk(
    dir: &Dir,
    path: &str,
    ignored: &mut Ignored,
    clock: Clock<'_>,
    visit: &mut dyn FnMut(&Dir, &str, &Entry) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let device = dir.dir_metadata().map(|meta| meta.dev()).ok();
    below(dir, path, (0, device), ignored, clock, visit)
}

fn below(
    dir: &Dir,
    path: &str,
    (depth, device): (usize, Option<u64>),
    ignored: &mut Ignored,
    clock: Clock<'_>,
    visit: &mut dyn FnMut(&Dir, &str, &Entry) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for entry in entries(dir, path, ignored) {
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
            let flow = below(&inner, &inner_path, (depth + 1, device), ignored, clock, visit);
            ignored.leave();
            flow?;
        }
    }
    ControlFlow::Continue(())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}
