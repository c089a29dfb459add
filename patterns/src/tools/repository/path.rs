//! From a path that a model wrote to an open file, without ever leaving the root.
//!
//! The root is held open, and every step below it opens one name in a folder that is open already, following no link. So
//! nothing that happens to the tree in the meantime can lead outside: what is checked is what is opened. Only a hard link
//! cannot be told from the file itself.

use std::io;

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, FileType, Metadata, OpenOptions};

use super::ignored::Ignored;
use super::secret;
use super::walk::Unseen;

/// What a path leads to.
pub(super) enum Found {
    File(File),
    Dir(Dir),
}

/// A path inside the root that was opened.
pub(super) struct Opened {
    /// The path from the root, with `/` between names; empty for the root itself.
    pub(super) path: String,
    pub(super) found: Found,
    /// The rules of the folders on the way.
    pub(super) ignored: Ignored,
}

/// The names of a path, or why it cannot be one inside the root. Only `/` divides names; nothing is decoded.
pub(super) fn names(path: &str) -> Result<Vec<&str>, String> {
    let teach = |what: &str| {
        Err(format!(
            "{what}; give a path relative to the root, as list_files shows it, such as `src/main.rs`"
        ))
    };
    if path.len() > 4_096 {
        return teach("the path is too long");
    }
    if path.chars().any(char::is_control) {
        return teach("the path has control characters in it");
    }
    if path.contains('\\') {
        return teach("the path has a `\\` in it");
    }
    let mut start = path.chars();
    let drive = start.next().is_some_and(|c| c.is_ascii_alphabetic()) && start.next() == Some(':');
    if path.starts_with(['/', '~']) || (drive && path.len() > 2) {
        return teach(&format!("`{path}` is an absolute path"));
    }
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            // also `.. ` and `...`, which some file systems take for `..`
            name if name.trim_end_matches(['.', ' ']).is_empty() => {
                return teach(&format!("`{path}` leads upwards with `{name}`"));
            }
            name if secret::is_secret(name) => {
                return Err(format!(
                    "`{path}` may hold secrets (keys, credentials, the data of git) and is not read; answer without it"
                ));
            }
            name => names.push(name),
        }
    }
    Ok(names)
}

/// Opens what a path leads to: a regular file or a folder.
pub(super) fn open(root: &Dir, path: &str) -> Result<Opened, String> {
    let names = names(path)?;
    let mut dir = root.try_clone().map_err(|error| unreadable(path, &error))?;
    let device = dir.dir_metadata().map_err(|error| unreadable(path, &error))?.dev();
    let mut ignored = Ignored::of_root(&dir);
    for (n, name) in names.iter().enumerate() {
        let here = names[..n].join("/");
        let real = names[..=n].join("/");
        let meta = match dir.symlink_metadata(name) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(not_found(&dir, path, &here, &ignored));
            }
            Err(error) => return Err(unreadable(&real, &error)),
        };
        if meta.is_symlink() {
            return Err(link(&dir, &names, n));
        }
        if ignored.is_ignored(&real, meta.is_dir()) {
            return Err(format!("`{real}` is left out by .gitignore, so it is no part of the repository"));
        }
        if meta.is_dir() {
            dir = dir.open_dir_nofollow(name).map_err(|error| unreadable(&real, &error))?;
            if dir.dir_metadata().map_err(|error| unreadable(&real, &error))?.dev() != device {
                return Err(format!("`{real}` is on another file system and is not read"));
            }
            ignored.enter(&dir, &real);
        } else if n + 1 < names.len() {
            return Err(format!("`{real}` is a file, so there is no `{path}`"));
        } else {
            let file = open_file(&dir, name, &meta).map_err(|error| unreadable(&real, &error))?;
            return Ok(Opened { path: real, found: Found::File(file), ignored });
        }
    }
    Ok(Opened { path: names.join("/"), found: Found::Dir(dir), ignored })
}

/// Opens a regular file in a folder. A pipe or device that takes its place at the last moment neither blocks nor is read.
pub(super) fn open_file(dir: &Dir, name: &str, meta: &Metadata) -> io::Result<File> {
    let regular = |kind: FileType| {
        if kind.is_file() {
            Ok(())
        } else {
            Err(io::Error::other("it is no regular file (a pipe, socket or device)"))
        }
    };
    regular(meta.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = dir.open_with(name, &options)?;
    regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn unreadable(path: &str, error: &io::Error) -> String {
    let path = if path.is_empty() { "." } else { path };
    format!("`{path}` cannot be read: {error}")
}

/// Says what there is instead.
fn not_found(dir: &Dir, path: &str, here: &str, ignored: &Ignored) -> String {
    let mut names: Vec<String> = super::walk::entries(dir, here, ignored, &mut Unseen::default())
        .into_iter()
        .map(|entry| if entry.meta.is_dir() { format!("{}/", entry.name) } else { entry.name })
        .collect();
    let more = names.len().saturating_sub(20);
    names.truncate(20);
    let place = if here.is_empty() { "the root" } else { here };
    let list = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("there is no `{path}`; in {place} there is {list}{more}")
}

/// Links are not followed; says where a link inside the root leads.
fn link(dir: &Dir, names: &[&str], n: usize) -> String {
    let link = names[..=n].join("/");
    let target = dir.read_link_contents(names[n]).ok().and_then(|target| target.to_str().map(str::to_owned));
    let inside = target.filter(|target| !target.starts_with('/')).and_then(|target| {
        let mut path: Vec<&str> = names[..n].to_vec();
        for name in target.split('/').chain(names[n + 1..].iter().copied()) {
            match name {
                "" | "." => {}
                ".." => {
                    path.pop()?;
                }
                name => path.push(name),
            }
        }
        Some(path.join("/"))
    });
    match inside {
        Some(real) if self::names(&real).is_ok() => {
            format!("`{link}` is a symbolic link, and links are not followed; use `{real}`")
        }
        _ => format!("`{link}` is a symbolic link that leads out of the root, and is not followed"),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use cap_std::ambient_authority;

    use super::*;

    /// The worst moment: it was a regular file when it was looked at, and is something else when it is opened.
    #[test]
    fn what_takes_the_place_of_a_file_after_the_look_is_not_opened() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at(".env"), "KEY").unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        type Swap = fn(&std::path::Path);
        let swaps: [(&str, Swap); 3] = [
            ("a link inside", |path| symlink(".env", path).unwrap()),
            ("a link outside", |path| symlink("/etc/passwd", path).unwrap()),
            ("a pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
        ];
        for (what, swap) in swaps {
            fs::write(at("x"), "inside").unwrap();
            let looked_at = dir.symlink_metadata("x").unwrap();
            assert!(open_file(&dir, "x", &looked_at).is_ok());
            fs::remove_file(at("x")).unwrap();
            swap(&at("x"));
            assert!(open_file(&dir, "x", &looked_at).is_err(), "{what} was opened");
            fs::remove_file(at("x")).unwrap();
        }
        symlink(folder.path(), at("way")).unwrap();
        assert!(dir.open_dir_nofollow("way").is_err());
    }
}
