//! Runs the client in each way and sets the figures side by side.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;

use crate::client::{Order, Runtime, Took, Way};
use crate::server::Seen;

/// What a call may cost beside the one by hand.
const BARS: [(Way, f64); 2] = [(Way::Provider, 1.10), (Way::Layers, 1.25)];
/// How much the same program differs between machines, by their allocators and vector instructions.
const MACHINES: f64 = 1.03;

/// The server in a process of its own.
struct Server {
    process: Child,
    url: String,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start() -> Self {
        let mut process = own().arg("serve").stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            process,
            url: format!("http://{}", address.trim()),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        }
    }

    /// What it has seen since it was last asked; later calls are answered after `delay_ms`.
    fn seen(&self, delay_ms: u64) -> Seen {
        let seen = self.client.get(format!("{}/seen?{delay_ms}", self.url)).send();
        self.runtime.block_on(async { seen.await.unwrap().json().await.unwrap() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn own() -> Command {
    direct(Command::new(std::env::current_exe().unwrap()))
}

/// Without the proxies that the environment names.
fn direct(mut command: Command) -> Command {
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().unwrap().get_name().to_owned()
}

struct Job {
    way: Way,
    order: Order,
    calls: usize,
    at_once: usize,
    runtime: Runtime,
}

impl Job {
    fn add_to(&self, command: &mut Command, server: &Server) {
        command
            .args([
                "call",
                "--url",
                &server.url,
                "--mode",
                &name(&self.way),
                "--workload",
                &name(&self.order),
            ])
            .args(["--calls", &self.calls.to_string(), "--conc", &self.at_once.to_string()])
            .args(["--rt", &name(&self.runtime)]);
    }
}

/// Instructions per call in user space, as the slope between two numbers of calls, so that the start does not count.
pub(crate) fn instructions() -> bool {
    const FEW: usize = 100;
    const MANY: usize = 400;
    let server = Server::start();
    let count = |way, order, calls, at_once| {
        let job = Job { way, order, calls, at_once, runtime: Runtime::Ct };
        let mut command = direct(Command::new("valgrind"));
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().unwrap());
        job.add_to(&mut command, &server);
        let output = command.output().expect("valgrind counts the instructions; install it");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(server.seen(0).calls, calls as u64, "{told}");
        let counted = told.lines().find_map(|line| line.split_once("Collected : ")?.1.parse::<f64>().ok());
        counted.expect("valgrind tells the count")
    };
    println!(
        "| instructions per call | chain | × by hand | fan-out, 20 at once | × by hand | the first call | × by hand |"
    );
    println!("|---|---|---|---|---|---|---|");
    let ways = [Way::Bare, Way::Provider, Way::Default, Way::Layers, Way::Trace];
    let mut by_hand = None;
    let mut met = true;
    for way in ways {
        let slope = |order, at_once| {
            (count(way, order, MANY, at_once) - count(way, order, FEW, at_once)) / (MANY - FEW) as f64
        };
        let counts = [slope(Order::Chain, 1), slope(Order::FanOut, 20), count(way, Order::Chain, 1, 1)];
        let base = *by_hand.get_or_insert(counts);
        let cells: Vec<String> = (counts.iter().zip(base))
            .map(|(count, base)| format!("{:.0} k | {:.3}", count / 1e3, count / base))
            .collect();
        println!("| {} | {} |", name(&way), cells.join(" | "));
        if let Some((_, bar)) = BARS.iter().find(|(barred, _)| *barred == way) {
            for (count, base) in counts.iter().zip(base).take(2) {
                if count / base > bar * MACHINES {
                    eprintln!(
                        "{} costs {:.3} times the call by hand; the bar is {bar}",
                        name(&way),
                        count / base
                    );
                    met = false;
                }
            }
        }
    }
    met
}

/// Processor time, time, memory and connections, of all ways in turn, as medians of the ratios within a round.
pub(crate) fn times(rounds: usize) -> bool {
    let works = [
        ("fan-out: 2,000 calls, 200 at once, 50 ms", Order::FanOut, 2_000, 200, 50),
        ("chain: 300 calls, 0 ms", Order::Chain, 300, 1, 0),
        ("5,000 calls at once, 3 s", Order::FanOut, 5_000, 5_000, 3_000),
        ("one call, start included", Order::Chain, 1, 1, 0),
    ];
    let ways = [Way::Bare, Way::Provider, Way::Layers, Way::Trace];
    let server = Server::start();
    let mut met = true;
    for (title, order, calls, at_once, delay) in works {
        let mut rows: Vec<Vec<[f64; 4]>> = vec![Vec::new(); ways.len()];
        let mut most = vec![(0, 0); ways.len()];
        for round in 0..rounds {
            for turn in 0..ways.len() {
                let nth = (round + turn) % ways.len(); // nobody is always first
                server.seen(delay);
                let mut command = own();
                Job { way: ways[nth], order, calls, at_once, runtime: Runtime::Mt }
                    .add_to(&mut command, &server);
                let begun = std::time::Instant::now();
                let output = command.stderr(Stdio::inherit()).output().unwrap();
                let start_to_end = begun.elapsed().as_secs_f64();
                let took: Took = serde_json::from_slice(&output.stdout).unwrap();
                let seen = server.seen(0);
                assert_eq!((seen.calls, took.chars > 0), (calls as u64, true), "{title}: {:?}", ways[nth]);
                most[nth] = (most[nth].0.max(seen.peak), most[nth].1.max(seen.connections));
                let memory = (took.peak_rss_mb - took.base_rss_mb) * 1024.0 / seen.peak as f64;
                rows[nth].push([
                    took.wall_s,
                    (took.cpu_user_s + took.cpu_sys_s) * 1e6 / calls as f64,
                    memory,
                    start_to_end * 1e3,
                ]);
            }
        }
        println!("\n{title}\n");
        println!(
            "| | time, s | × | processor time per call, µs | × | memory per call at once, KB | × | process, ms | × | peak | connections |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|");
        for (nth, way) in ways.iter().enumerate() {
            let cells: Vec<String> = (0..4)
                .map(|figure| {
                    let own = median(rows[nth].iter().map(|row| row[figure]));
                    let ratio =
                        median(rows[nth].iter().zip(&rows[0]).map(|(row, base)| row[figure] / base[figure]));
                    format!("{own:.3} | {ratio:.2}")
                })
                .collect();
            println!("| {} | {} | {} | {} |", name(way), cells.join(" | "), most[nth].0, most[nth].1);
            met &= most[nth].0 == at_once as u64 && most[nth].1 <= at_once as u64 + at_once as u64 / 20;
        }
    }
    if !met {
        eprintln!("another number of calls at once or of connections than there should be");
    }
    met
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
