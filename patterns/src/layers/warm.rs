//! Lets one call go first, so that the others find its prompt in the cache.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Layer;
use crate::error::Result;
use crate::event::Event;
use crate::llm::{Llm, OnText, Request};
use crate::providers::limits;
use crate::reply::Reply;

/// How long a cached prompt lives after its last use.
const LIFE: Duration = Duration::from_secs(5 * 60);

/// Lets one of several calls with the same beginning go first, and the others follow as soon as its reply has begun: then
/// they read from the prompt cache what each would otherwise pay to write.
///
/// The same beginning is what the provider marks for the cache: up to the caller's own mark (`cache_control`), if there is one;
/// otherwise the system prompt and the tools; where these are too short for the cache, the whole prompt, as for the voters of a
/// vote. Nothing waits longer than until the first reply has begun, has failed or was dropped, nor for a model that is not
/// known to have a prompt cache. The first call is streamed.
///
/// Clones share what is known to be cached.
#[derive(Clone, Debug, Default)]
pub struct Warm {
    prefixes: Arc<Mutex<HashMap<u64, Prefix>>>,
}

/// A beginning that was sent lately.
#[derive(Debug)]
struct Prefix {
    begun: watch::Receiver<bool>,
    used: Instant,
}

enum Turn {
    First(watch::Sender<bool>),
    After(watch::Receiver<bool>),
}

impl Warm {
    fn prefixes(&self) -> MutexGuard<'_, HashMap<u64, Prefix>> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What names the beginning of the request in the cache; `None` when it is not cached.
    fn key(llm: &dyn Llm, request: &Request) -> Option<u64> {
        let model = llm.model(request)?;
        let (_, shortest) = limits(&model)?;
        let long = |bytes: usize| bytes / 4 >= shortest as usize; // four bytes a token, as the provider counts
        let blocks = || {
            let blocks = request.messages.iter().flat_map(|message| &message.content);
            blocks.map(|block| block.raw().get())
        };
        let tools = match request.tools.as_slice() {
            [] => String::new(),
            tools => serde_json::to_string(tools).ok()?,
        };
        let begin = request.system.len() + tools.len();
        if !long(begin + blocks().map(str::len).sum::<usize>()) {
            return None;
        }
        let blocks: Vec<&str> = blocks().collect();
        let marked = blocks.iter().rposition(|block| block.contains("\"cache_control\""));
        let shared = match marked {
            Some(last) => &blocks[..=last],
            None if long(begin) && !request.extra.contains_key("cache_control") => &[],
            None => &blocks[..],
        };
        if !long(begin + shared.iter().map(|block| block.len()).sum::<usize>()) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (model, &request.system, tools, shared).hash(&mut hasher);
        Some(hasher.finish())
    }

    fn turn(&self, key: u64) -> Turn {
        let now = Instant::now();
        let mut prefixes = self.prefixes();
        if let Some(prefix) = prefixes.get_mut(&key)
            && now - prefix.used < LIFE
        {
            prefix.used = now;
            return Turn::After(prefix.begun.clone());
        }
        prefixes.retain(|_, prefix| now - prefix.used < LIFE);
        let (begin, begun) = watch::channel(false);
        prefixes.insert(key, Prefix { begun, used: now });
        Turn::First(begin)
    }

    /// Forgets a beginning whose first call was dropped before it had begun, unless another has taken its place.
    fn forget(&self, key: u64, begun: &watch::Receiver<bool>) {
        let mut prefixes = self.prefixes();
        if prefixes.get(&key).is_some_and(|prefix| prefix.begun.same_channel(begun)) {
            prefixes.remove(&key);
        }
    }

    async fn go_first(
        &self,
        llm: &dyn Llm,
        mut request: Request,
        begin: watch::Sender<bool>,
    ) -> Result<Reply> {
        request.on_text.get_or_insert_with(OnText::unseen);
        let begin = Arc::new(begin);
        request.overhear({
            let begin = Arc::clone(&begin);
            move |event| {
                if matches!(event, Event::Used { .. } | Event::FirstText) {
                    begin.send_replace(true);
                }
            }
        });
        let result = llm.call(request).await;
        begin.send_replace(true); // a failure, too: nobody waits for a second one
        result
    }
}

impl Layer for Warm {
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        let Some(key) = Self::key(llm, &request) else { return llm.call(request) };
        async move {
            loop {
                match self.turn(key) {
                    Turn::First(begin) => return self.go_first(llm, request, begin).await,
                    Turn::After(mut begun) => {
                        if *begun.borrow() {
                            break;
                        }
                        request.tell_with(|| Event::Waiting {
                            why: "the prompt cache".to_owned(),
                            seconds: None,
                        });
                        if begun.wait_for(|begun| *begun).await.is_ok() {
                            break;
                        }
                        self.forget(key, &begun);
                    }
                }
            }
            llm.call(request).await
        }
        .boxed()
    }
}
