//! A small language model that runs inside the process: no server, no key, nothing to install.
//!
//! [`Engine`] loads a GGUF file of the llama architecture and answers conversations, as text in pieces or as several
//! samples of one prompt, and chooses among described options. [`weights`] finds or fetches the model that is used by
//! default, SmolLM2-135M-Instruct (98 MB, Apache-2.0). It is small: expect fluent sentences, and few facts.
//!
//! ```
//! use patterns_embedded::{Choice, Engine, Message, Options, weights};
//!
//! # fn main() -> patterns_embedded::Result<()> {
//! # futures::executor::block_on(async {
//! let engine = Engine::open(weights::ensure(|_| ()).await?).await?;
//!
//! let question = [Message::system("You are a helpful assistant."), Message::user("What is the capital of France?")];
//! let answer = engine.generate(&question, &Options::default(), |_| ()).await?;
//! assert_eq!(answer.text, "The capital of France is Paris.");
//!
//! let desks = [
//!     Choice::new("billing", "payments, invoices and refunds"),
//!     Choice::new("bug", "something in the product is broken or shows an error"),
//! ];
//! let probabilities = engine.choose("I was charged twice.", "support ticket", &desks).await?;
//! assert!(probabilities[0] > 0.9);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Everything is computed on the processor by pure Rust, with candle's matrix product where many tokens are read at
//! once and eight-bit blocks of our own where tokens are written one by one. The engine runs on threads of its own and
//! needs no particular async runtime. This crate never prints.

mod choose;
mod engine;
mod error;
mod generate;
mod model;
mod score;
mod text;
pub mod weights;
mod worker;

pub use choose::Choice;
pub use engine::Engine;
pub use error::{Error, ErrorKind, Result};
pub use generate::{Generated, Options, Stop};
pub use text::{Message, Role};
