//! A process of the binary that is followed while it runs, and those that it has started.

use crate::support::Room;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far above what anything here takes: whoever waits longer would wait for ever.
const NEVER: Duration = Duration::from_secs(120);

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Its output, if it ended with 0.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// The last line of its output, as JSON.
    #[track_caller]
    pub(crate) fn last_json(&self) -> Value {
        serde_json::from_str(self.stdout.lines().last().unwrap()).unwrap()
    }
}

/// A running process; dropping it ends it.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    seen: Vec<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        });
        Self { child, lines, stderr: Some(stderr), seen: Vec::new() }
    }

    /// Waits until step `step` has been printed by `train --json`.
    #[track_caller]
    pub(crate) fn wait_for_step(&mut self, step: u64) {
        loop {
            let Ok(line) = self.lines.recv_timeout(NEVER) else {
                let stderr = self.end_now();
                panic!("no step {step}: {stderr}");
            };
            let value: Value = serde_json::from_str(&line).unwrap();
            self.seen.push(line);
            if value["step"] == step {
                return;
            }
        }
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        loop {
            match self.lines.recv_timeout(NEVER) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let stderr = self.end_now();
                    panic!("it never ends: {stderr}");
                }
            }
        }
        let code = self.child.wait().unwrap().code();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        Ended { code, stdout: self.seen.join("\n"), stderr }
    }

    fn end_now(&mut self) -> String {
        self.child.kill().unwrap();
        self.stderr.take().map_or_else(String::new, |stderr| stderr.join().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has usually ended; both calls are then harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `command` to its end.
#[track_caller]
pub(crate) fn run(command: Command) -> Ended {
    Running::start(command).end()
}

/// Sends the signal of that name.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// A worker process of the run in a room.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    pub(crate) pid: u32,
    pub(crate) command_line: String,
    environment: String,
}

impl WorkerProcess {
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let start = format!("{name}=");
        self.environment.split('\0').find_map(|entry| entry.strip_prefix(&start))
    }
}

/// All living workers whose configuration is in the room, by rank.
pub(crate) fn workers(room: &Room) -> Vec<WorkerProcess> {
    let folder = room.folder().display().to_string();
    let read = |path: &Path, name: &str| {
        let bytes = fs::read(path.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let found = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let command_line = read(&path, "cmdline");
        // A process that has ended and waits to be reaped has no command line.
        let is_ours = command_line.contains("\0worker\0") && command_line.contains(&folder);
        let environment = is_ours.then(|| read(&path, "environ"))?;
        Some(WorkerProcess { pid, command_line, environment })
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|worker| worker.variable("RANK").map(str::to_owned));
    found
}

/// Waits until no worker of the room is left.
#[track_caller]
pub(crate) fn wait_for_workers_to_end(room: &Room) {
    let start = Instant::now();
    while let Some(worker) = workers(room).first() {
        assert!(start.elapsed() < NEVER, "{worker:?} never ends");
        std::thread::yield_now();
    }
}
