//! Facts of the peer at the far end.

/// Facts of the peer at the far end: its place, its dealings with messages and bulk data, and the source of its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerFacts {
    /// True if processes of ours do the far half of the work.
    pub is_ours: bool,
    /// True if it is several receivers, each of which receives everything that one connection sends.
    pub is_group: bool,
    /// True if it is a command, and another one at the near end: each does the whole of its side's work.
    pub is_command: bool,
    /// True if it is the far host's kernel, and no process.
    pub is_kernel: bool,
    /// True if it sends each message back as it is.
    pub echoes: bool,
    /// True if each message is an attempt to connect, which it accepts or refuses; nothing answers on connections.
    pub only_connects: bool,
    /// True if it takes bulk data.
    pub takes_data: bool,
    /// True if it sends bulk data.
    pub sends_data: bool,
    /// True if it takes and sends bytes, whatever the messages that they arrive in.
    pub ignores_boundaries: bool,
    /// True if it takes and sends data at the rate that the work asks for.
    pub keeps_schedule: bool,
    /// True if it sends after a request of the near end, and only then.
    pub answers_requests: bool,
    /// True if its answers are documents, whose length it decides.
    pub has_documents: bool,
    /// Source of the counts of its half of the work.
    pub counts: CountSource,
}

/// Source of the counts of the far half of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountSource {
    /// The report of the far half, if there is one.
    Report,
    /// Counts of data, without their times, that the far end reports on a control connection of its own.
    Session,
    /// Acknowledgements of the far kernel.
    Acknowledgements,
    /// Answers that arrived: the far end sent those.
    Answers,
    /// The end of an answer, before which the far end has taken all data.
    Confirmation,
}

impl PeerFacts {
    /// One process of ours.
    pub const OURS: PeerFacts = PeerFacts {
        is_ours: true,
        takes_data: true,
        sends_data: true,
        keeps_schedule: true,
        ..PeerFacts::OTHERS
    };
    /// Program of others that answers nothing and takes no data; each far end adds what it does.
    pub const OTHERS: PeerFacts = PeerFacts {
        is_ours: false,
        is_group: false,
        is_command: false,
        is_kernel: false,
        echoes: false,
        only_connects: false,
        takes_data: false,
        sends_data: false,
        ignores_boundaries: false,
        keeps_schedule: false,
        answers_requests: false,
        has_documents: false,
        counts: CountSource::Report,
    };
    /// Program of others that sends each message back as it is.
    pub const ECHO: PeerFacts = PeerFacts { echoes: true, ..PeerFacts::OTHERS };

    /// Reason why work that wants answers on a connection has none from a peer that only connects.
    pub const NOBODY_BEHIND: &str =
        "no program answers on connections there: the far kernel accepts or refuses them";

    /// Returns true if one process of ours does the far half of the work.
    pub fn is_process_of_ours(&self) -> bool {
        self.is_ours && !self.is_group
    }

    /// Returns true if the far host's kernel sends messages back: no contender's round trip is shorter.
    pub fn is_floor(&self) -> bool {
        self.is_kernel && self.echoes
    }

    /// Returns true if it reports its counts on a control connection of its own.
    pub fn has_session(&self) -> bool {
        self.counts == CountSource::Session
    }
}
