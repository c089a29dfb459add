//! Reading what a model wrote, and writing what a model reads.

mod chars;
mod choice;
mod content;
mod element;
mod field;
mod gate;
mod label;
mod lex;
mod score;
mod stream;
mod tag;
mod task;
mod thinking;
mod unread;
mod write;

pub use gate::gate;
pub use label::label;
pub use label::label_in;
pub use label::verdict;
pub use label::verdict_in;
pub use score::score;
pub use score::score_out_of;
pub use stream::TagStream;
pub use tag::tag;
pub use tag::tags;
pub use task::TaskRecord;
pub use task::tasks;
pub use unread::Unread;
pub use unread::UnreadKind;
pub use write::fill;
pub use write::fill_all;
pub use write::unwrap_exact;
pub use write::with_input;
pub use write::wrap;
