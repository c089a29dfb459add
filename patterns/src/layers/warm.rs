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
use crate::message::Block;
use crate::price::Prices;
use crate::reply::Reply;

/// How long a cached prompt lives after its last use.
const LIFE: Duration = Duration::from_secs(5 * 60);

/// Lets one of several calls with the same beginning go first, and the others follow as soon as its reply has begun: then
/// they read from the prompt cache what each would otherwise pay to write.
///
/// The same beginning is the same model, system prompt, tools and messages up to the last block; where that is too short for
/// the cache, all of it, as for the voters of a vote. Nothing waits longer than until the first reply has begun, has failed
/// or was dropped, nor for a model whose shortest cacheable prompt is not known. The first call is streamed.
///
/// It helps only with a provider that marks its prompts for the cache. Clones share what is known to be cached.
#[derive(Clone, Debug)]
pub struct Warm {
    prices: Arc<Prices>,
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

impl Default for Warm {
    /// With the built-in table of models.
    fn default() -> Self {
        Self::new(Prices::builtin())
    }
}

impl Warm {
    /// With the shortest cacheable prompts of these models.
    pub fn new(prices: Arc<Prices>) -> Self {
        Self { prices, prefixes: Arc::default() }
    }

    fn prefixes(&self) -> MutexGuard<'_, HashMap<u64, Prefix>> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What names the beginning of the request in the cache; `None` when it is not cached.
    fn key(&self, llm: &dyn Llm, request: &Request) -> Option<u64> {
        let model = llm.model(request)?;
        let shortest = self.prices.get(&model)?.min_cacheable?;
        let blocks: Vec<&Block> = request.messages.iter().flat_map(|message| &message.content).collect();
        let tools = if request.tools.is_empty() {
            String::new()
        } else {
            serde_json::to_string(&request.tools).ok()?
        };
        let (last, shared) = blocks.split_last()?;
        let bytes = |blocks: &[&Block]| blocks.iter().map(|block| block.raw().get().len()).sum::<usize>();
        let begin = request.system.len() + tools.len() + bytes(shared);
        let long = |bytes: usize| bytes as u64 / 4 >= shortest; // four bytes a token: rather not wait in vain
        let whole = !long(begin);
        if whole && !long(begin + bytes(&[last])) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (model, &request.system, tools, whole).hash(&mut hasher);
        for block in if whole { &blocks } else { shared } {
            block.raw().get().hash(&mut hasher);
        }
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
        let Some(key) = self.key(llm, &request) else { return llm.call(request) };
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
