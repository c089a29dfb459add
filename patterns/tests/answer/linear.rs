//! No reply makes a reader slow. Time is compared with time, on the same machine in the same minute:
//! sixteen times the text may take sixteen times as long; a quadratic reader takes 256 times as long.

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

fn fastest_of_three(text: &str) -> Duration {
    let time = |_| {
        let start = Instant::now();
        read_everything(text);
        start.elapsed()
    };
    (0..3).map(time).min().unwrap_or_default()
}

#[test]
fn sixteen_times_the_text_takes_about_sixteen_times_as_long() {
    const SMALL: usize = 4_000;
    const TIMES: usize = 16;
    let mut slow = Vec::new();
    for (before, repeated, after) in HOSTILE {
        let reply = |length: usize| format!("{before}{}{after}", repeated.repeat(length / repeated.len()));
        let small = fastest_of_three(&reply(SMALL));
        let large = fastest_of_three(&reply(SMALL * TIMES));
        let growth = large.as_secs_f64() / small.as_secs_f64().max(1e-6);
        if growth > 4.0 * TIMES as f64 {
            slow.push(format!("  {before}[{repeated:?}]{after}: {growth:.0} times"));
        }
    }
    assert!(slow.is_empty(), "more than linear time on runs of:\n{}", slow.join("\n"));
}
