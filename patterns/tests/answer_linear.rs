//! No reply makes a reader slow: one text takes about as long as its sixteen parts do one by one; with
//! a quadratic reader it takes sixteen times as long. A binary of its own, so that no test runs beside it.

use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

use patterns::answer;

/// What is repeated, and what stands round it.
const HOSTILE: [(&str, &str, &str); 44] = [
    ("", "<", ""),
    ("", "< ", ""),
    ("<answer>", "<", "</answer>"),
    ("", "<answer>", ""),
    ("", "<answer>\n", ""),
    ("", "<answer>x", ""),
    ("", " <answer>x", ""),
    ("", "</answer>", ""),
    ("", "<answer/>", ""),
    ("", "<answer a=\"", ""),
    ("", "<answer a='<b c=\"", ""),
    ("", "<answer '='", ""),
    ("<answer ", "a=\"\" ", ">x</answer>"),
    ("", "<think>", ""),
    ("", "x <think>", ""),
    ("<answer>1</answer>", " <think>", ""),
    ("", "</think>", ""),
    ("", "<answer>x</answer></think>", ""),
    ("", "<answer>x</answer><think>", ""),
    ("<answer>", "<b>", ""),
    ("<answer>x", "<b></c></b>", ""),
    ("", "<x>\n<answer>\n<y></x></y>", ""),
    ("", "<x>\n<answer> <answer>a</answer>\n", ""),
    ("", "<!--", ""),
    ("", "<![CDATA[", ""),
    ("<answer>", "<![CDATA[x]]>", "</answer>"),
    ("", "`", ""),
    ("", "` `` ", ""),
    ("", "```a\n", ""),
    ("", "~~~>", ""),
    ("", "````a\n```\n", ""),
    ("<answer>", "&", "</answer>"),
    ("<answer>", "&amp;", "</answer>"),
    ("", "&lt;answer&gt;", ""),
    ("", "＜answer＞", ""),
    ("", "\n", ""),
    ("", "- ", ""),
    ("", "Label:\n", ""),
    ("", "\"label\": \"", ""),
    ("<label>", "not billing ", "</label>"),
    ("<label>billing\n", "technical ", "</label>"),
    ("<label>", "-_", "billing</label>"),
    ("<task>", "<needs>1</needs>", "</task>"),
    ("<score>", "8/", "</score>"),
];

fn read_everything(text: &str) {
    black_box(answer::tag(text, "answer")).ok();
    black_box(answer::tags(text, "answer")).ok();
    black_box(answer::label(text, &["billing", "technical", "a b"])).ok();
    black_box(answer::verdict(text, &["PASS", "FAIL"])).ok();
    black_box(answer::gate(text, "FAIL")).ok();
    black_box(answer::tasks(text)).ok();
    black_box(answer::score(text)).ok();
    black_box(answer::wrap("answer", text));
    let mut stream = answer::TagStream::new("answer");
    for piece in text.as_bytes().chunks(7) {
        black_box(stream.push_bytes(piece));
    }
    stream.finish().ok();
}

/// The time that this thread has spent computing, where the system tells it: waiting for a busy
/// machine does not count.
fn computed() -> Option<Duration> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    statistics.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn time(text: &str, times: usize) -> Duration {
    let (clock, before) = (Instant::now(), computed());
    (0..times).for_each(|_| read_everything(text));
    let spent = before.zip(computed()).map(|(before, after)| after.saturating_sub(before));
    spent.filter(|spent| !spent.is_zero()).unwrap_or_else(|| clock.elapsed())
}

#[test]
fn a_long_text_takes_as_long_as_its_parts() {
    const PART: usize = 2_000;
    const PARTS: usize = 16;
    const ALLOWED: f64 = 4.0;
    let mut slow = Vec::new();
    for (before, repeated, after) in HOSTILE {
        let reply = |length: usize| format!("{before}{}{after}", repeated.repeat(length / repeated.len()));
        let (part, whole) = (reply(PART), reply(PART * PARTS));
        let growth = || time(&whole, 1).as_secs_f64() / time(&part, PARTS).as_secs_f64().max(1e-4);
        // a slow reader is slow every time, a busy machine is not
        let growths: Vec<f64> = (0..5).map(|_| growth()).take_while(|growth| *growth > ALLOWED).collect();
        if growths.len() == 5 {
            slow.push(format!("  {before}[{repeated:?}]{after}: {growths:.0?} times"));
        }
    }
    assert!(slow.is_empty(), "more than linear time on runs of:\n{}", slow.join("\n"));
}
