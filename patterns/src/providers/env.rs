//! The environment, read in one place.

use std::fmt;
use std::sync::Arc;

/// Where set-up is read from: the process's environment, or anything else that gives a value for a name.
#[derive(Clone)]
pub struct Env(Arc<Lookup>);

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Env {
    /// The environment of the process.
    pub fn process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// Whatever `lookup` gives for a name.
    ///
    /// ```
    /// use patterns::providers::{Env, connect_in};
    ///
    /// let env = Env::of(|name| (name == "ANTHROPIC_API_KEY").then(|| "a key from elsewhere".to_owned()));
    /// let llm = connect_in("anthropic:claude-opus-5-5", &env)?;
    /// # Ok::<(), patterns::Error>(())
    /// ```
    pub fn of(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(lookup))
    }

    /// The value of a variable, without surrounding white space; one that is empty counts as unset.
    pub fn get(&self, name: &str) -> Option<String> {
        let value = (self.0)(name)?;
        let trimmed = value.trim();
        (!trimmed.is_empty()).then(|| trimmed.to_owned())
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}
