//! Things that must not be done twice.

use super::{Journal, Key, Line, Stage};
use crate::error::Result;
use crate::path::Path;
use crate::reply::Reply;

/// Whether something with an effect has been done before; what [`Journal::effect`] says.
#[derive(Debug)]
pub enum Effect {
    /// Not yet: do it now, and say so with [`Pending::done`].
    New(Pending),
    /// It is done, and this was its result. Do not do it again.
    Done(String),
    /// A run ended in the middle of it, and nobody knows whether it was done. Ask a person before doing it again.
    Unsure(Pending),
}

/// Something with an effect that is being done.
#[derive(Debug)]
#[must_use = "an effect that is not said to be done will be asked about when the run is resumed"]
pub struct Pending {
    journal: Journal,
    key: Key,
    nth: usize,
}

impl Journal {
    /// What is written of something with an effect that is about to be done: nothing; that it was begun; its result.
    pub(crate) fn known(&self, path: &Path, what: &str) -> Option<Option<String>> {
        let key = Key::of_effect(self.seed, path, what);
        let state = self.state();
        let entries = state.effects.get(&key)?;
        entries.written.get(entries.asked).cloned()
    }

    /// Asks whether something with an effect (a file written, a mail sent) has been done before, and writes down that it is
    /// about to be done; to be called right before doing it. `what` says exactly what is done, arguments included.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the journal cannot be written.
    pub fn effect(&self, path: &Path, what: &str) -> Result<Effect> {
        let key = Key::of_effect(self.seed, path, what);
        let mut state = self.state();
        let entries = state.effects.entry(key.clone()).or_default();
        let nth = entries.asked;
        entries.asked += 1;
        let written = entries.written.get(nth).cloned();
        let pending = Pending { journal: self.clone(), key, nth };
        match written {
            Some(Some(result)) => Ok(Effect::Done(result)),
            Some(None) => Ok(Effect::Unsure(pending)),
            None => {
                entries.written.push(None);
                state.lines.append(&Line::<Reply>::effect(&pending.key, Stage::Begun))?;
                Ok(Effect::New(pending))
            }
        }
    }
}

impl Pending {
    /// Writes down that it is done, with its result.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the journal cannot be written.
    pub fn done(self, result: &str) -> Result<()> {
        let mut state = self.journal.state();
        state.lines.append(&Line::<Reply>::effect(&self.key, Stage::Done(result.to_owned())))?;
        if let Some(entries) = state.effects.get_mut(&self.key)
            && let Some(written) = entries.written.get_mut(self.nth)
        {
            *written = Some(result.to_owned());
        }
        Ok(())
    }
}
