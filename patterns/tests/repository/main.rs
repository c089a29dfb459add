//! The repository tools: what they show, and that nothing leads outside of the root.
#![allow(clippy::unwrap_used)] // a test may panic

mod cite;
#[path = "../common/mod.rs"]
mod common;
#[cfg(unix)]
mod hostile;
mod look;
mod questions;

use std::fs;
use std::path::Path;

use patterns::{ListFiles, ReadFile, Repository, Search};
use tempfile::TempDir;

/// Writes files into a fresh folder and opens it.
fn tree(files: &[(&str, &str)]) -> (TempDir, Repository) {
    let dir = TempDir::new().unwrap();
    write(dir.path(), files);
    let repository = Repository::open(dir.path()).unwrap();
    (dir, repository)
}

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn read(repository: &Repository, path: &str) -> Result<String, String> {
    repository.read_file(&ReadFile { path: path.to_owned(), ..ReadFile::default() })
}

fn list(repository: &Repository, path: &str) -> Result<String, String> {
    repository.list_files(&ListFiles { path: Some(path.to_owned()), ..ListFiles::default() })
}

fn search(repository: &Repository, pattern: &str) -> Result<String, String> {
    repository.search(&Search { pattern: pattern.to_owned(), ..Search::default() })
}
