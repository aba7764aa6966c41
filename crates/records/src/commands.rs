//! Commands of other people's programs in a trial: the files that ran, and the report on each.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use deadheat_contract::contract::Side;

/// Report on one command of a trial, beside the figures.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CommandReport {
    /// Time from the start of a client to its end, in nanoseconds; absent for a server.
    pub took_ns: Option<u64>,
    /// Bytes that it printed, standard output and error together.
    pub printed_bytes: u64,
    /// Received content, if the command writes it to a file.
    pub received: Option<ReceivedContent>,
}

/// Content that a command received and wrote to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedContent {
    /// Its length in bytes.
    pub bytes: u64,
    /// SHA-256 (FIPS 180-4) of it in hexadecimal.
    pub sha256: String,
}

/// File that a command runs, or that its arguments name.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramFile {
    /// Side of the command.
    pub side: Side,
    /// Path of the file, without links.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// SHA-256 (FIPS 180-4) of it in hexadecimal.
    pub sha256: String,
    /// State of the program: a copy of it runs, or the file itself. Absent for a file that is no program, or that was found by
    /// its name.
    pub copy: Option<ProgramCopy>,
}

impl ProgramFile {
    /// Returns true if both are the same file with the same content.
    pub fn is_same(&self, other: &ProgramFile) -> bool {
        let facts =
            |file: &ProgramFile| (file.side, file.path.clone(), file.bytes, file.sha256.clone());
        facts(self) == facts(other)
    }
}

/// State of a program of a race: a copy of it runs, or the file itself, for a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramCopy {
    /// A copy of it runs.
    Made,
    /// It is a script, which may look for files beside itself.
    Script,
    /// It looks for libraries beside itself.
    Beside,
    /// It is in a virtual environment of Python, whose modules it finds by its own path.
    Environment,
    /// It is too large.
    Large,
    /// It has rights of its own (setuid, setgid, file capabilities), which a copy would lose.
    Rights,
    /// This user may not read it.
    Unreadable,
    /// No program may run from the folder of temporary files.
    Unrunnable,
    /// The file of the pair says that it is not copied.
    Off,
    /// Another reason, of a later version.
    #[serde(other)]
    Other,
}
