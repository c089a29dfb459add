//! What a run did, seen afterwards: the events of a run in a file, and what can be told from them.
//!
//! [`Trace`] is a layer that writes every event of a run to a file. [`Run`] reads it back, also when the run was killed in
//! the middle of a line, and tells work from waiting, finds the [critical path](Run::critical_path), and draws a
//! [timeline](Run::gantt), a [diagram](Run::mermaid), a [page](Run::html) and the [difference](Diff) to another run.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> patterns::Result<()> {
//! use patterns::layers::{Options, standard};
//! use patterns::trace::{Run, Trace, told};
//! use patterns::{Flow, Llm, Reply, Request};
//!
//! let file = std::env::temp_dir().join(format!("trace-{}.jsonl", std::process::id()));
//! let trace = Trace::create(&file)?;
//! let model = async |request: Request| Ok(Reply::text_of(request.text()));
//! let llm = standard(model, Options::default()).layer(trace.clone());
//!
//! let flow = "Outline.".then("Write.");
//! told(&llm, &flow.shape(), flow.run(&llm, "bees")).await?;
//! trace.finish()?;
//!
//! let run = Run::read(&file)?;
//! assert_eq!(run.calls.len(), 2);
//! assert_eq!(run.critical_path().len(), 2);
//! println!("{}", run.gantt(80));
//! # std::fs::remove_file(&file).ok();
//! # Ok(()) }
//! ```
//!
//! # The file
//!
//! JSON Lines in UTF-8. The first line is a header, every further one an event:
//!
//! ```json
//! {"trace":1,"patterns":"0.1.0","started":1796071352.25,"content":false}
//! {"t":0.000112,"path":"step 1","call":1,"event":"call_started","model":"anthropic:claude-opus-5-5"}
//! ```
//!
//! | key | meaning |
//! |---|---|
//! | `trace` | the version of this format; a reader refuses one that it does not know |
//! | `patterns` | the version of the library that wrote it |
//! | `started` | the time of the start, in seconds since 1970 |
//! | `content` | whether prompts and replies are in the file |
//! | `t` | seconds since the start, by a clock that never goes back, to the microsecond |
//! | `path` | where in the flow; left out at the root |
//! | `call` | which call, counted from 1; left out when the event is not about one call |
//! | `event` | which [`Event`](crate::Event), in snake case; its fields stand beside it, but for those that have nothing to tell |
//!
//! Every event is handed to the system within 20 ms, so a run that is killed loses no more than that, and at most its last
//! line is torn.
//!
//! With content there are two more events of a call: `asked` with the `request` and `answered` with the `reply`'s content
//! blocks. Without it, no event holds anything that a user or a model wrote but the names that the flow declares and the
//! ids of tasks ([`Event::without_content`](crate::Event::without_content)). Keys are never in a trace: they are no part
//! of a request. A reader skips events and fields that it does not know.

mod critical;
mod diff;
mod draw;
mod gantt;
mod line;
mod page;
mod read;
mod run;
mod told;
mod tools;
mod write;

pub use crate::draw::one_line;
pub use critical::Leg;
pub use diff::Diff;
pub use read::VERSION;
pub use run::{Call, Node, Note, Phase, Run, Sum};
pub use told::told;
pub use tools::Ran;
pub use write::Trace;
