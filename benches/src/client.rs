//! The same work, by hand and through the library.

use std::future::Future;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use futures::StreamExt;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use patterns::layers::{Budget, Journal, Limit, Observe, Options, Warm, standard};
use patterns::price::Usd;
use patterns::providers::Anthropic;
use patterns::trace::Trace;
use patterns::{Llm, Request};
use serde::{Deserialize, Serialize};

pub(crate) const MODEL: &str = "claude-sonnet-5-5";

/// What is to be done, and by whom.
#[derive(Args, Clone, Debug)]
pub(crate) struct Work {
    /// The server
    #[arg(long)]
    pub(crate) url: String,
    /// Whether the calls follow one another, each with the last reply in its prompt, or start together. W1 and W3 are names of
    /// the one, W2 and W4 of the other
    #[arg(long = "workload", value_enum, default_value_t = Order::Chain)]
    pub(crate) order: Order,
    #[arg(long, default_value_t = 1)]
    pub(crate) calls: usize,
    /// The most calls under way at once
    #[arg(long = "conc", default_value_t = 1)]
    pub(crate) at_once: usize,
    #[arg(long = "mode", value_enum, default_value_t = Way::Layers)]
    pub(crate) way: Way,
    /// The runtime: with worker threads or in one thread
    #[arg(long = "rt", value_enum, default_value_t = Runtime::Mt)]
    pub(crate) runtime: Runtime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    #[value(aliases = ["W1", "W3"])]
    FanOut,
    #[value(aliases = ["W2", "W4"])]
    Chain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// reqwest and serde_json, by hand
    Bare,
    /// The provider alone
    Provider,
    /// With the layers that a run has by default
    Default,
    /// With all layers: a listener, the meter, a journal, a budget, one call first for the cache, retries, a limit
    Layers,
    /// As `layers`, and a trace is written
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    Ct,
    Mt,
}

/// What the work took.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Took {
    system: String,
    version: String,
    workload: String,
    calls: usize,
    pub(crate) wall_s: f64,
    pub(crate) cpu_user_s: f64,
    pub(crate) cpu_sys_s: f64,
    pub(crate) peak_rss_mb: f64,
    pub(crate) base_rss_mb: f64,
    /// The characters of all replies: a client that drops some is no client.
    pub(crate) chars: usize,
}

/// Does the work and prints what it took.
pub(crate) fn call(work: &Work) -> bool {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let runtime = match work.runtime {
        Runtime::Ct => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        Runtime::Mt => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
    };
    let folder = tempfile::tempdir().unwrap();
    let took = runtime.unwrap().block_on(async {
        let begun = Begun::now();
        let chars = match work.way {
            Way::Bare => {
                let (client, url) = (by_hand(), format!("{}/v1/messages", work.url));
                run(work, |prompt| bare(&client, &url, prompt)).await
            }
            Way::Provider => through(work, provider(work)).await,
            Way::Default => {
                let options = Options { limit: Some(Limit::at_most(work.at_once)), ..Options::default() };
                through(work, standard(provider(work), options)).await
            }
            Way::Layers => through(work, standard(provider(work), all(work, folder.path()))).await,
            Way::Trace => {
                let trace = Trace::create(folder.path().join("trace.jsonl")).unwrap();
                through(work, standard(provider(work), all(work, folder.path())).layer(trace)).await
            }
        };
        begun.end(work, chars)
    });
    println!("{}", serde_json::to_string(&took).unwrap());
    true
}

fn all(work: &Work, folder: &std::path::Path) -> Options {
    Options {
        observe: Some(Observe::new(|_, _| ())),
        journal: Some(Journal::open(folder.join("journal.jsonl")).unwrap()),
        budget: Some(
            Budget::default()
                .usd(Usd::new(1e6))
                .tokens(u64::MAX)
                .calls(u64::MAX)
                .time(Duration::from_secs(3600)),
        ),
        warm: Some(Warm::default()),
        limit: Some(Limit::at_most(work.at_once)),
        ..Options::default()
    }
}

fn provider(work: &Work) -> Anthropic {
    Anthropic::builder(MODEL, "key").base_url(&work.url).build().unwrap()
}

async fn through(work: &Work, llm: impl Llm) -> usize {
    run(work, async |prompt| {
        let request = Request { max_tokens: Some(1024), ..Request::new(prompt) };
        llm.call(request).await.unwrap().into_answer().unwrap()
    })
    .await
}

fn by_hand() -> reqwest::Client {
    rustls::crypto::ring::default_provider().install_default().unwrap();
    reqwest::Client::new()
}

/// A call as one would write it without a library.
async fn bare(client: &reqwest::Client, url: &str, prompt: String) -> String {
    #[derive(Deserialize)]
    struct Message {
        content: Vec<Block>,
        stop_reason: String,
        usage: Usage,
    }
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Block {
        Text {
            text: String,
        },
        #[serde(other)]
        Other,
    }
    #[derive(Deserialize)]
    struct Usage {
        input_tokens: u64,
        output_tokens: u64,
    }
    let body = serde_json::json!({
        "model": MODEL,
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": prompt}],
    });
    let request =
        client.post(url).header("x-api-key", "key").header("anthropic-version", "2023-06-01").json(&body);
    let reply = request.send().await.unwrap().error_for_status().unwrap().bytes().await.unwrap();
    let message: Message = serde_json::from_slice(&reply).unwrap();
    assert!(
        message.stop_reason == "end_turn"
            && message.usage.input_tokens > 0
            && message.usage.output_tokens > 0
    );
    let texts = message.content.into_iter().map(|block| match block {
        Block::Text { text } => text,
        Block::Other => String::new(),
    });
    texts.collect()
}

/// Makes the calls; gives the characters of all replies.
async fn run<F: Future<Output = String>>(work: &Work, call: impl Fn(String) -> F) -> usize {
    let rules =
        "Look at error handling, at limits on what a client may send, at retries, and at names. ".repeat(8);
    let prompt = |n: usize, last: &str| format!("Say whether change {n} can be merged.\n\n{rules}\n\n{last}");
    match work.order {
        Order::Chain => {
            let (mut chars, mut last) = (0, String::new());
            for n in 0..work.calls {
                last = call(prompt(n, &last)).await;
                chars += last.len();
            }
            chars
        }
        Order::FanOut => {
            let calls = futures::stream::iter(0..work.calls).map(|n| call(prompt(n, "")));
            calls.buffer_unordered(work.at_once).fold(0, async |chars, text| chars + text.len()).await
        }
    }
}

struct Begun {
    at: Instant,
    user: f64,
    system: f64,
    peak_mb: f64,
}

impl Begun {
    fn now() -> Self {
        let (user, system) = processor();
        Self { at: Instant::now(), user, system, peak_mb: peak_mb() }
    }

    fn end(self, work: &Work, chars: usize) -> Took {
        let (user, system) = processor();
        Took {
            system: format!("patterns {:?}", work.way).to_lowercase(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            workload: format!("{:?}", work.order).to_lowercase(),
            calls: work.calls,
            wall_s: self.at.elapsed().as_secs_f64(),
            cpu_user_s: user - self.user,
            cpu_sys_s: system - self.system,
            peak_rss_mb: peak_mb(),
            base_rss_mb: self.peak_mb,
            chars,
        }
    }
}

/// The processor time of this process in seconds, its own and the kernel's for it.
fn processor() -> (f64, f64) {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    (seconds(usage.user_time()), seconds(usage.system_time()))
}

/// The most memory that this process has had, which unlike `ru_maxrss` begins anew with each program.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kb =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    kb.unwrap_or(0.0) / 1024.0
}
