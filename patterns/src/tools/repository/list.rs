//! `list_files`.

use std::ops::ControlFlow;

use globset::{Glob, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Repository;
use super::path::{Found, open};
use super::walk::walk;

/// The most paths of one answer.
const MOST: usize = 1_000;

/// The arguments of `list_files`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ListFiles {
    /// The folder, relative to the root. Default: the root.
    pub path: Option<String>,
    /// Only files whose name or path matches, as `*.rs` or `src/**/*.py`.
    pub glob: Option<String>,
}

impl Repository {
    /// Lists the files below a folder, one path a line.
    ///
    /// # Errors
    /// What the model shall be told: no such folder, or why it may not be seen.
    pub fn list_files(&self, args: &ListFiles) -> Result<String, String> {
        let glob = glob(args.glob.as_deref())?;
        let mut opened = open(&self.root, args.path.as_deref().unwrap_or_default())?;
        let Found::Dir(dir) = &opened.found else {
            return Err(format!("`{}` is a file; read it with read_file", opened.path));
        };
        let mut paths = Vec::new();
        let mut more = 0;
        let clock = self.clock();
        let unseen = walk(dir, &opened.path, &mut opened.ignored, clock, &mut |_, path, _| {
            if glob.as_ref().is_none_or(|glob| fits(glob, path)) {
                if paths.len() < MOST { paths.push(path.to_owned()) } else { more += 1 }
            }
            ControlFlow::Continue(())
        });
        let late = clock.is_over();
        if paths.is_empty() && !late {
            paths
                .push("no files (what .gitignore leaves out and files of secrets are not listed)".to_owned());
        }
        if late {
            paths.push(format!("[{clock}; ask for a subfolder with `path`]"));
        } else if more > 0 {
            paths.push(format!("[{more} more files; ask for a subfolder with `path`, or use `glob`]"));
        }
        paths.extend(unseen.note());
        Ok(paths.join("\n"))
    }
}

/// A glob without a `/` is held against the name alone.
pub(super) fn fits(glob: &GlobMatcher, path: &str) -> bool {
    glob.is_match(path)
        || (!glob.glob().glob().contains('/')
            && path.rsplit('/').next().is_some_and(|name| glob.is_match(name)))
}

pub(super) fn glob(text: Option<&str>) -> Result<Option<GlobMatcher>, String> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    match Glob::new(text.trim_start_matches("./")) {
        Ok(glob) => Ok(Some(glob.compile_matcher())),
        Err(error) => {
            Err(format!("`{text}` is no glob: {error}; write for instance `*.rs` or `src/**/*.py`"))
        }
    }
}
