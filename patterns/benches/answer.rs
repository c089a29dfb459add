//! Reading typical and hostile replies, with the cookbook's regex on the same inputs.
//!
//! `cargo bench -p llm-patterns --bench answer`. The hostile inputs are made to cost a careless
//! reader more than its share; per byte they must stay within five times a typical reply.

use divan::Bencher;
use divan::black_box;
use divan::counter::BytesCount;
use patterns::answer;
use regex::Regex;

fn main() {
    divan::main();
}

const LONG: usize = 200_000;

/// The replies by name.
const REPLIES: [&str; 9] = [
    "typical 1 kB",
    "typical 200 kB",
    "< runs",
    "open tags",
    "</think>",
    "newlines",
    "bullets",
    "backticks",
    "attributes",
];

fn reply(name: &str, tag: &str) -> String {
    let paragraph = "The order of 12 May was charged twice, because the form was sent again after a timeout. \
        A check like `if paid && total > 0` would have caught it.\n\n- <b>Refund</b> the second charge\n- Tell the customer\n\n";
    let body = |length: usize| paragraph.repeat(length / paragraph.len() + 1)[..length].replace('\u{0}', " ");
    let around = |content: String| {
        format!(
            "<think>\nA double charge.\n</think>\n<answer>\n{content}</answer>\n<label>billing</label>\n<gate>ok</gate>\n"
        )
    };
    match name {
        "typical 1 kB" => around(body(900)),
        "typical 200 kB" => around(body(LONG)),
        "< runs" => "<".repeat(LONG),
        "open tags" => format!("<{tag}>").repeat(LONG / 8),
        "</think>" => "</think>".repeat(LONG / 8),
        "newlines" => "\n".repeat(LONG),
        "bullets" => "- ".repeat(LONG / 2),
        "backticks" => "` `` ``` ".repeat(LONG / 9),
        "attributes" => format!("<{tag} a=\"").repeat(LONG / 11),
        other => panic!("no reply called {other}"),
    }
}

fn bench(bencher: Bencher, name: &str, tag: &str, read: impl Fn(&str) + Sync) {
    let reply = reply(name, tag);
    bencher.counter(BytesCount::of_str(&reply)).bench(|| read(black_box(&reply)));
}

#[divan::bench(args = REPLIES)]
fn tag(bencher: Bencher, name: &str) {
    bench(bencher, name, "answer", |reply| drop(black_box(answer::tag(reply, "answer"))));
}

#[divan::bench(args = REPLIES)]
fn tags(bencher: Bencher, name: &str) {
    bench(bencher, name, "answer", |reply| drop(black_box(answer::tags(reply, "answer"))));
}

#[divan::bench(args = REPLIES)]
fn label(bencher: Bencher, name: &str) {
    bench(bencher, name, "label", |reply| {
        drop(black_box(answer::label(reply, &["billing", "technical", "other"])));
    });
}

#[divan::bench(args = REPLIES)]
fn gate(bencher: Bencher, name: &str) {
    bench(bencher, name, "gate", |reply| drop(black_box(answer::gate(reply, "FAIL"))));
}

#[divan::bench(args = REPLIES)]
fn stream_of_4_byte_pieces(bencher: Bencher, name: &str) {
    bench(bencher, name, "answer", |reply| {
        let mut stream = answer::TagStream::new("answer");
        for piece in reply.as_bytes().chunks(4) {
            black_box(stream.push_bytes(piece));
        }
        drop(black_box(stream.finish()));
    });
}

/// What the cookbook does: the first match of a lazy pattern, nothing else.
#[divan::bench(args = REPLIES)]
fn cookbook_regex(bencher: Bencher, name: &str) {
    let pattern = Regex::new(r"(?s)<answer>(.*?)</answer>").expect("a valid pattern");
    bench(bencher, name, "answer", |reply| {
        black_box(pattern.captures(reply).map(|found| found[1].to_owned()));
    });
}
