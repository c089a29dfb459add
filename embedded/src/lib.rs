//! A small language model that runs inside the process.

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
