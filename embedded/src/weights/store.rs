//! The cache folder, in which a file is either whole or not there.

use super::{Progress, advice};
use crate::error::{Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

/// A file that is known to the byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pinned {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    pub(super) sha256: &'static str,
}

/// Somewhere to get a file from.
pub(super) trait Source: Send {
    /// Whose name stands in a message.
    fn name(&self) -> &'static str;

    /// Fetches, with `scratch` (an empty folder) for whatever must lie on disk meanwhile, and gives the file's content.
    /// `progress` is to be told several times a second; it answers false when nobody waits any more.
    fn open(&self, scratch: &Path, progress: &mut dyn FnMut(Progress) -> bool) -> io::Result<Box<dyn Read>>;
}

/// A folder with the file in it, or soon.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) folder: PathBuf,
    pub(super) pinned: Pinned,
}

impl Store {
    /// The file, if it is there. Its checksum was looked at when it was fetched; its size shows a half-made copy.
    pub(super) fn find(&self) -> Option<PathBuf> {
        let file = self.folder.join(self.pinned.name);
        let whole =
            file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == self.pinned.bytes);
        whole.then_some(file)
    }

    /// The file, from the first source that has it.
    pub(super) fn fetch(
        &self,
        sources: &[Box<dyn Source>],
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<PathBuf> {
        if let Some(file) = self.find() {
            return Ok(file);
        }
        let failed = |why: String| {
            let advice = advice(&self.folder, &self.pinned);
            Error::new(
                ErrorKind::MissingWeights,
                format!("no weights for the embedded model: {why}; {advice}"),
            )
        };
        let unusable =
            |error: io::Error| failed(format!("cannot use the folder {} ({error})", self.folder.display()));
        fs::create_dir_all(&self.folder).map_err(unusable)?;
        // whoever comes second waits here, and then finds the file; a process that is killed lets go of the lock
        let lock = File::create(self.folder.join(format!("{}.lock", self.pinned.name))).map_err(unusable)?;
        lock.lock().map_err(unusable)?;
        if let Some(file) = self.find() {
            return Ok(file);
        }
        let mut reasons = Vec::new();
        for source in sources {
            match self.fetch_from(&**source, progress) {
                Ok(file) => return Ok(file),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Err(failed("fetching them was stopped".to_owned()));
                }
                Err(error) => reasons.push(format!("{} failed ({error})", source.name())),
            }
        }
        Err(failed(reasons.join(", ")))
    }

    fn fetch_from(
        &self,
        source: &dyn Source,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> io::Result<PathBuf> {
        // one name for all: the lock is ours, and what a killed process left behind is cleared away
        let scratch = self.folder.join(format!("{}.fetch", self.pinned.name));
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir(&scratch)?;
        let result =
            source.open(&scratch, progress).and_then(|content| self.keep(content, &scratch.join("whole")));
        let _ = fs::remove_dir_all(&scratch);
        result
    }

    /// Writes the content to a temporary file, and gives it its name when it is the right one.
    fn keep(&self, content: Box<dyn Read>, temporary: &Path) -> io::Result<PathBuf> {
        let mut file = File::create(temporary)?;
        let mut digest = Sha256::new();
        let mut bytes = 0;
        let mut content = content.take(self.pinned.bytes + 1);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = content.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            digest.update(&buffer[..count]);
            file.write_all(&buffer[..count])?;
            bytes += count as u64;
        }
        let sha256: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if bytes != self.pinned.bytes || sha256 != self.pinned.sha256 {
            let why = format!(
                "it gave {bytes} bytes or more with SHA-256 {sha256}, which is not the file that is meant"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        file.sync_all()?;
        let name = self.folder.join(self.pinned.name);
        fs::rename(temporary, &name)?;
        Ok(name)
    }
}

/// Nobody waits for the file any more.
pub(super) fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "stopped")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::fetched;
    use futures::FutureExt as _;
    use futures::executor::block_on;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    const CONTENT: &[u8] = b"abc";
    const PINNED: Pinned = Pinned {
        name: "small.gguf",
        bytes: 3,
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    };

    /// Gives bytes after a while, and counts how often it was asked.
    #[derive(Clone, Default)]
    struct Slow {
        bytes: &'static [u8],
        ticks: u64,
        asked: Arc<AtomicUsize>,
        stopped: Arc<AtomicUsize>,
    }

    impl Source for Slow {
        fn name(&self) -> &'static str {
            "the slow source"
        }

        fn open(
            &self,
            scratch: &Path,
            progress: &mut dyn FnMut(Progress) -> bool,
        ) -> io::Result<Box<dyn Read>> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            fs::write(scratch.join("half"), "ab")?;
            for done in 0..self.ticks {
                std::thread::sleep(Duration::from_millis(5));
                if !progress(Progress { done, total: Some(self.ticks) }) {
                    self.stopped.fetch_add(1, Ordering::SeqCst);
                    return Err(stopped());
                }
            }
            Ok(Box::new(self.bytes))
        }
    }

    fn store(folder: &tempfile::TempDir) -> Store {
        Store { folder: folder.path().join("patterns"), pinned: PINNED }
    }

    fn files(store: &Store) -> Vec<String> {
        let entries = fs::read_dir(&store.folder).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn first_runs_that_race_fetch_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = Slow { bytes: CONTENT, ticks: 20, ..Slow::default() };
        let runs: Vec<_> = (0..8)
            .map(|_| {
                let (store, source) = (store(&folder), source.clone());
                std::thread::spawn(move || store.fetch(&[Box::new(source)], &mut |_| true))
            })
            .collect();
        for run in runs {
            let file = run.join().expect("no panic").expect("the file");
            assert_eq!(fs::read(file).expect("readable"), CONTENT);
        }
        assert_eq!(source.asked.load(Ordering::SeqCst), 1);
        assert_eq!(files(&store(&folder)), ["small.gguf", "small.gguf.lock"]);
    }

    #[test]
    fn what_a_killed_run_left_behind_does_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder);
        fs::create_dir_all(store.folder.join("small.gguf.fetch/deep")).expect("a folder");
        fs::write(store.folder.join("small.gguf.fetch/whole"), "a").expect("a file");
        fs::write(store.folder.join("small.gguf.lock"), "").expect("a file");
        let file = store.fetch(&[Box::new(Slow { bytes: CONTENT, ..Slow::default() })], &mut |_| true);
        assert_eq!(fs::read(file.expect("the file")).expect("readable"), CONTENT);
        assert_eq!(files(&store), ["small.gguf", "small.gguf.lock"]);
    }

    #[test]
    fn a_half_made_copy_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder);
        fs::create_dir_all(&store.folder).expect("a folder");
        fs::write(store.folder.join("small.gguf"), "ab").expect("a file");
        assert_eq!(store.find(), None);
        let file = store.fetch(&[Box::new(Slow { bytes: CONTENT, ..Slow::default() })], &mut |_| true);
        assert_eq!(fs::read(file.expect("the file")).expect("readable"), CONTENT);
    }

    #[test]
    fn a_wrong_file_is_refused_and_the_next_source_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder);
        let wrong: [&'static [u8]; 3] = [b"abd", b"ab", b"abcd"];
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for bytes in wrong {
            sources.push(Box::new(Slow { bytes, ..Slow::default() }));
        }
        let error = store.fetch(&sources, &mut |_| true).expect_err("no source has it");
        assert_eq!(error.kind(), ErrorKind::MissingWeights);
        assert_eq!(files(&store), ["small.gguf.lock"]);
        sources.push(Box::new(Slow { bytes: CONTENT, ..Slow::default() }));
        assert!(store.fetch(&sources, &mut |_| true).is_ok());
    }

    #[test]
    fn a_failure_names_the_three_ways_to_provide_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder);
        let error = store.fetch(&[Box::new(Slow::default())], &mut |_| true).expect_err("it has nothing");
        let message = error.to_string();
        let ways = ["PATTERNS_MODEL_FILE", "put small.gguf", "network access", "the slow source failed"];
        for part in ways.into_iter().chain(store.folder.to_str()) {
            assert!(message.contains(part), "`{part}` is missing from: {message}");
        }
    }

    #[test]
    fn an_unusable_folder_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("patterns"), "a file where a folder should be").expect("a file");
        let store = store(&folder);
        let error = store.fetch(&[], &mut |_| true).expect_err("no folder");
        assert_eq!(error.kind(), ErrorKind::MissingWeights);
        assert!(error.to_string().contains(store.folder.to_str().expect("utf-8")), "{error}");
    }

    #[test]
    fn dropping_the_future_stops_the_fetching() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(&folder);
        let source = Slow { bytes: CONTENT, ticks: 100_000, ..Slow::default() };
        let mut fetching = Box::pin(fetched(store.clone(), vec![Box::new(source.clone())], |_| ()));
        assert!(fetching.as_mut().now_or_never().is_none());
        drop(fetching);
        let start = Instant::now();
        while source.stopped.load(Ordering::SeqCst) == 0 {
            assert!(start.elapsed() < Duration::from_secs(10), "it goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
        // and the next run is not in its way
        let fast = Slow { bytes: CONTENT, ..Slow::default() };
        assert!(block_on(fetched(store, vec![Box::new(fast)], |_| ())).is_ok());
    }

    #[test]
    fn progress_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let told = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&told);
        let source = Slow { bytes: CONTENT, ticks: 5, ..Slow::default() };
        let file = fetched(store(&folder), vec![Box::new(source)], move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        assert!(block_on(file).is_ok());
        assert_eq!(told.load(Ordering::SeqCst), 5);
    }
}
