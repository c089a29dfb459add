//! Reading what a model wrote, and writing what a model reads.
//!
//! Every pattern hangs on this: the router reads a label, the planner tasks, the judge a verdict and
//! a score. Models wrap their answer in chatter, in a fence or in bold type, think aloud before it,
//! forget or misspell a close tag, escape too much or too little, and are cut off by `max_tokens`.
//! Regular expressions and XML parsers are silently wrong on a good part of such replies. The readers
//! here are right, or say that they are not sure: there are no defaults, and nothing is guessed.
//!
//! | to read | function | the reply |
//! |---|---|---|
//! | one element | [`tag()`] | `<answer>if a < b</answer>` |
//! | a list of elements | [`tags`] | `<task>..</task><task>..</task>` |
//! | one of some labels | [`label`], [`label_in`] | `<label>**Billing**: a double charge</label>` |
//! | a judge's verdict | [`verdict`], [`verdict_in`] | `<evaluation>NEEDS_IMPROVEMENT</evaluation>` |
//! | whether to stop a chain | [`gate`] | `FAIL: the outline has no ending` |
//! | the tasks of a plan | [`tasks`] | `<task id="a"><description>..</description></task>` |
//! | a score | [`score`], [`score_out_of`] | `<score>8/10</score>` |
//! | an element while it arrives | [`TagStream`] | `<ans` `wer>y` `es</answer>` |
//!
//! A reply that cannot be read gives an [`Unread`], which says in one of four ways why
//! ([`UnreadKind`]) and what was seen. [`wrap`], [`fill`] and [`with_input`] write: a text put into a
//! prompt arrives byte for byte and cannot break out of its place.
//!
//! All readers take time linear in the length of the reply, do not recurse, and never expand an
//! entity that a reply defines itself.
//!
//! # How a reply is read
//!
//! **Tags.** A tag is `<`, a name, and `>` before the next `<`. Case, spaces, zero-width
//! characters and attributes do not matter, and `\` passes for `/`; names are compared whole (`labels`,
//! `label_id` and `ns:label` are not `label`). Nothing in comments and CDATA sections is a tag. Tags
//! in code (fences, backticks) count only if there is no element outside code, so that a fence round the
//! whole reply is transparent and an example yields to the answer.
//!
//! **Thinking.** `think`, `thinking`, `thought`, `thoughts`, `reasoning` and `scratchpad` hide what is
//! in them, unless that very name is asked for. A lone close tag hides all before it; a block that is
//! not closed hides the rest. Inside the asked element they are content.
//!
//! **Elements.** A close tag belongs to the nearest open one; only outermost elements count. An open
//! tag that is left over is repaired where the reply shows its end (a sibling, the close tag of its parent,
//! a misspelt close tag, the next field), is a mention where a sentence names it, and otherwise shows
//! that the reply was cut. If no tag is there at all, full-width brackets and escaped tags are read,
//! and then a reply that continues a prefilled open tag.
//!
//! **Content.** The edges are trimmed, but a block of indented lines keeps its first indent. CDATA
//! wrappers go. Entities are decoded once, and only if the writer escaped: raw `<` or a bare `&` in the
//! prose shows that the entities are meant as they stand. Everything else stays byte for byte.
//!
//! **Labels.** Decoration, case, `-`, `_` and spaces do not matter, `C++` is not `C`. A label that
//! leads wins over others in its reason. A label named in a sentence must be the only one; a negated one
//! does not count. There are no synonyms and no nearest spelling.
//!
//! # Choices
//!
//! Where another reading could be defended, the one that fails closed was taken:
//!
//! | the reply | is read as |
//! |---|---|
//! | several different elements, also a self-correction | ambiguous, neither first nor last |
//! | an element and a second one that is cut | truncated |
//! | an answer that stands only in thinking, or only in a comment | missing |
//! | `<label>billing` and nothing more | truncated; a caller that stops at `</label>` must add it |
//! | cut inside its close tag, or inside an open tag of the name | truncated |
//! | `billing</label>` after a prefilled open tag | `billing` |
//! | `label>billing</label>`, `<label=billing</label>`, `<label: x>` | missing, no repair |
//! | `<label>billing<label>` and nothing after | `billing` |
//! | `<label value="x"/>` | an empty element; attributes are not the content |
//! | a close tag in the prose of an element | ends it |
//! | `AT&amp;T & Co` | stays as it is |
//! | a CDATA section that is not closed, in an element that is | its text |
//! | `PASS with reservations`, `PASS if ..`, `would PASS`, `PASS?`, `PASS: no` | ambiguous |
//! | `PASSED`, `bugs`, `bug-fix`, `facturacion` for `facturación` | unknown label |
//! | one label and one unknown word in two tags | the label |
//! | a label named in prose without tag and field | missing |
//! | first and last line that give different labels | ambiguous |
//! | `{"label": "billing"}` | `billing` |
//! | a numbered list, or JSON, where tasks are asked for | no tasks |
//! | empty elements | kept by [`tags`], refused by [`tasks`] |
//! | a blank text at a gate | missing, not a pass |
//! | `Status: FAIL` in a text about something else | the gate word |

mod chars;
mod choice;
mod content;
mod element;
mod field;
mod gate;
mod label;
mod lex;
mod nesting;
mod pair;
mod reason;
mod score;
mod stream;
mod tag;
mod task;
mod thinking;
mod token;
mod unread;
mod word;
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
pub(crate) use write::appended;
pub use write::fill;
pub use write::fill_all;
pub use write::unwrap_exact;
pub use write::with_input;
pub use write::wrap;
