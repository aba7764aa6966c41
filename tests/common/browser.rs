//! Chromium, driven over a pair of pipes (`--remote-debugging-pipe`): JSON messages of the Chrome
//! DevTools Protocol, each with a zero byte behind it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Time after which the browser is taken for hung. No test waits for it while all is well.
const HUNG: Duration = Duration::from_secs(120);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Returns the path of Chromium; if there is none, prints that the test is skipped.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let files =
        NAMES.iter().flat_map(|name| path.split(':').map(move |dir| Path::new(dir).join(name)));
    let found = files.into_iter().find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: `chromium` is not installed (make test installs it where it can)");
    }
    found
}

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: File,
    unread: Vec<u8>,
    calls: u64,
    session: Option<String>,
    /// Events since the start, oldest first.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser with an empty page; `None`, with a message, if there is no browser.
    pub(crate) fn start() -> Option<Browser> {
        let mut command = Command::new(find()?);
        command.arg("--disable-quic");
        Browser::start_by(command)
    }

    /// Starts the browser by a command that gives its own descriptors to it.
    pub(crate) fn start_by(mut command: Command) -> Option<Browser> {
        let profile = tempfile::tempdir().unwrap();
        let (its_in, to) = pipe();
        let (from, its_out) = pipe();
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (reads, writes) = (its_in.as_raw_fd(), its_out.as_raw_fd());
        // SAFETY: between fork and exec only dup2 is called, which is async-signal-safe; both
        // descriptors are open, and above 10, so that neither dup2 closes the other.
        unsafe {
            command.pre_exec(move || {
                for (own, wanted) in [(reads, 3), (writes, 4)] {
                    if libc::dup2(own, wanted) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop((its_in, its_out));
        let mut browser = Browser {
            child,
            to: File::from(to),
            from: File::from(from),
            unread: Vec::new(),
            calls: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let id = &target["targetId"];
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": id, "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Opens a file and waits until it has loaded.
    pub(crate) fn open(&mut self, file: &Path) {
        self.visit(&format!("file://{}", file.display()));
    }

    /// Opens an address and waits until it has loaded.
    pub(crate) fn visit(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({ "url": url }));
        assert!(answer.get("errorText").is_none(), "{answer}");
        self.wait("Page.loadEventFired");
    }

    /// Returns the value of an expression; waits for promises.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true,
                "userGesture": true }),
        );
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Returns the value of an expression as a number.
    pub(crate) fn count(&mut self, expression: &str) -> u64 {
        let value = self.eval(expression);
        value.as_u64().unwrap_or_else(|| panic!("{expression}: {value}"))
    }

    /// Returns the value of an expression as text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression}: {value}")).to_owned()
    }

    /// Presses a key: `Tab`, `ArrowRight`.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => panic!("no code for {other}"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Moves the mouse.
    pub(crate) fn point(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
    }

    /// Sets the width of the window, on a screen of ordinary density.
    pub(crate) fn resize(&mut self, width: u64) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 }),
        );
    }

    /// Sets the medium, paper or screen, and the colour scheme that the reader prefers, light or dark.
    pub(crate) fn media(&mut self, media: &str, scheme: &str) {
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "media": media,
                "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    /// Returns the page on paper, as PDF.
    pub(crate) fn print(&mut self) -> Vec<u8> {
        let answer = self.call("Page.printToPDF", json!({ "printBackground": true }));
        STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
    }

    /// Returns every address that was fetched.
    pub(crate) fn requests(&self) -> Vec<String> {
        let sent =
            self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns exceptions, complaints on the console, refusals by the page's policy, and dialogs.
    pub(crate) fn troubles(&self) -> Vec<&Value> {
        let is_trouble = |event: &&Value| {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Page.javascriptDialogOpening" => true,
                "Runtime.consoleAPICalled" => true,
                "Log.entryAdded" => params["entry"]["level"] != "verbose",
                _ => false,
            }
        };
        self.events.iter().filter(is_trouble).collect()
    }

    fn wait(&mut self, method: &str) {
        let seen = self.events.len();
        while !self.events[seen..].iter().any(|event| event["method"] == method) {
            let message = self.read();
            self.events.push(message);
        }
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let message = self.read();
            if message["id"] == json!(id) {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn read(&mut self) -> Value {
        let until = Instant::now() + HUNG;
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == 0) {
                let message: Vec<u8> = self.unread.drain(..=end).collect();
                return serde_json::from_slice(&message[..end]).unwrap();
            }
            let left = until.saturating_duration_since(Instant::now());
            let mut poll =
                libc::pollfd { fd: self.from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: `poll` is one pollfd, and lives through the call.
            let ready = unsafe { libc::poll(&mut poll, 1, left.as_millis() as i32) };
            assert!(ready > 0, "the browser says nothing");
            let mut buffer = vec![0; 1 << 16];
            let read = self.from.read(&mut buffer).unwrap();
            assert!(read > 0, "the browser is gone");
            self.unread.extend_from_slice(&buffer[..read]);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its child processes end with it; the files that they leave are in the profile, which is removed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the reading end and the writing end, both above 10 and closed on exec.
fn pipe() -> (OwnedFd, OwnedFd) {
    let (reads, writes) = std::io::pipe().unwrap();
    (high(&reads), high(&writes))
}

fn high(fd: &impl AsRawFd) -> OwnedFd {
    // SAFETY: the descriptor is open; F_DUPFD_CLOEXEC makes a new one or fails.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 11) };
    assert!(copy >= 11, "{}", std::io::Error::last_os_error());
    // SAFETY: it is new, and has no other owner.
    unsafe { OwnedFd::from_raw_fd(copy) }
}
