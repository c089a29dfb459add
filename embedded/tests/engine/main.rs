//! What the engine promises: with the real weights (fetched if need be; without them these tests fail), and with a tiny
//! model made up on the spot where the real one would be slow.

mod choosing;
mod files;
mod generating;
mod tiny;

use futures::executor::block_on;
use patterns_embedded::{Engine, weights};
use std::sync::LazyLock;

/// The real model, loaded once for all tests.
fn engine() -> &'static Engine {
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
        block_on(async {
            let file = weights::ensure(|_| ()).await.expect("these tests need the weights");
            Engine::open(file).await.expect("the model loads")
        })
    });
    &ENGINE
}
