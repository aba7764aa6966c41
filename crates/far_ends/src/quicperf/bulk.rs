//! Bulk data: a stream that carries it one way.

use super::{ENDLESS, STOPPED, WISH_LEN};
use deadheat_base::time::Nanos;
use deadheat_datapath::transport::application::{
    Application, ApplicationFacts, ApplicationState, Streams, Takes, TakesBulk,
};
use deadheat_datapath::transport::step::{StepBudget, StepLooks};

/// Wish of a flow that receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// So many bytes.
    Bytes(u64),
    /// Data for this time.
    For(Nanos),
}

/// Time of a step that the application learns with its next deadline: other calls bring none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepTime {
    /// Not begun.
    Never,
    /// Begun, at a time that the next deadline brings.
    Unknown,
    /// Due then.
    At(Nanos),
}

impl StepTime {
    fn deadline(self) -> Option<Nanos> {
        match self {
            StepTime::Never => None,
            StepTime::Unknown => Some(Nanos::ZERO),
            StepTime::At(due) => Some(due),
        }
    }
}

/// Download on one stream.
pub(super) struct Download {
    wish: Wish,
    stream: Option<u64>,
    got: u64,
    /// Time at which the work is over.
    stops: StepTime,
    /// True once the data was asked for, or is to be.
    has_begun: bool,
    step: StepBudget,
    looks: StepLooks,
    has_ended: bool,
}

impl Download {
    pub(super) fn new(wish: Wish) -> Download {
        Download {
            wish,
            stream: None,
            got: 0,
            stops: StepTime::Unknown,
            has_begun: false,
            step: StepBudget::default(),
            looks: StepLooks::default(),
            has_ended: false,
        }
    }

    fn wanted(&self) -> u64 {
        match self.wish {
            Wish::Bytes(bytes) => bytes,
            Wish::For(_) => ENDLESS,
        }
    }

    /// Asks for the data, once.
    fn ask_for_it(&mut self, streams: &mut dyn Streams) -> Result<Option<u64>, String> {
        if self.stream.is_none() && !self.has_ended {
            self.has_begun = true;
            let Some(stream) = streams.open() else { return Ok(None) };
            send_wish(self.wanted(), stream, streams)?;
            streams.finish(stream);
            self.stream = Some(stream);
        }
        Ok(self.stream)
    }

    /// Returns the reason why an answer that has ended is not as it was asked for; `None` if it is.
    fn fault_of_end(&self) -> Option<String> {
        let got = self.got;
        match self.wish {
            Wish::Bytes(bytes) if bytes == got => None,
            Wish::Bytes(bytes) => Some(format!("it sent {got} bytes, and was asked for {bytes}")),
            Wish::For(_) => {
                Some(format!("it ended after {got} bytes what was to go on until it is stopped"))
            }
        }
    }
}

/// Writes the first bytes of a stream, for which every peer has room.
pub(super) fn send_wish(bytes: u64, stream: u64, streams: &mut dyn Streams) -> Result<(), String> {
    match streams.write(stream, &bytes.to_be_bytes())? {
        WISH_LEN => Ok(()),
        _ => Err(format!("it has no room for the first {WISH_LEN} bytes of a stream")),
    }
}

impl Application for Download {
    fn read(
        &mut self,
        streams: &mut dyn Streams,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String> {
        if self.has_ended {
            return Ok(());
        }
        let Some(stream) = self.ask_for_it(streams)? else { return Ok(()) };
        let wanted = self.wanted();
        let before = self.got;
        let got = &mut self.got;
        let is_over = streams.read(stream, &mut |bytes| {
            *got += bytes.len() as u64;
            take(bytes);
        })?;
        if *got > before {
            self.step.renew();
        }
        if *got > wanted {
            return Err(format!("it sent {got} bytes, and was asked for {wanted}"));
        }
        if is_over {
            if let Some(fault) = self.fault_of_end() {
                return Err(fault);
            }
            self.has_ended = true;
        }
        Ok(())
    }

    fn next_deadline(&self) -> Option<Nanos> {
        if self.has_ended {
            return None;
        }
        // Before it has begun nothing wakes the flow that is to begin it.
        if !self.has_begun {
            Some(Nanos::ZERO)
        } else {
            self.looks.next(true).into_iter().chain(self.stops.deadline()).min()
        }
    }

    fn on_deadline(&mut self, now: Nanos, streams: &mut dyn Streams) -> Result<(), String> {
        if !self.has_begun {
            return Ok(());
        }
        if self.looks.is_due(now) {
            let got = self.got;
            self.step.look().map_err(|why| format!("{why}, after {got} bytes"))?;
        }
        match (self.stops, self.wish) {
            (StepTime::Unknown, Wish::For(time)) => self.stops = StepTime::At(now + time),
            (StepTime::Unknown, Wish::Bytes(_)) => self.stops = StepTime::Never,
            (StepTime::At(due), _) if due <= now => {
                self.has_ended = true;
                if let Some(stream) = self.stream {
                    streams.stop(stream, STOPPED);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn state(&self) -> ApplicationState {
        ApplicationState { has_ended: self.has_ended, is_settled: true }
    }

    fn facts(&self) -> ApplicationFacts {
        let bytes = match self.wish {
            Wish::Bytes(bytes) => format!("all {bytes} bytes"),
            Wish::For(_) => "the end of the download's time".to_owned(),
        };
        let awaits = Some(format!("before {bytes}"));
        ApplicationFacts { awaits, ..ApplicationFacts::default() }
    }

    fn takes(&mut self) -> Takes<'_> {
        Takes::Nothing
    }
}

/// Upload on one stream.
#[derive(Default)]
pub(super) struct Upload {
    stream: Option<u64>,
    given: u64,
    is_finished: bool,
    is_confirmed: bool,
    /// Acknowledgements at the last look at the progress, and the time of the next, once all is given.
    looks: Option<(Option<Nanos>, u64)>,
}

/// Time without an acknowledgement, after the last bytes, within which the far program has to end its answer: less than
/// the driver waits for it.
const CONFIRMS_WITHIN: Nanos = Nanos::from_millis(2_500);

impl Upload {
    fn opened(&mut self, streams: &mut dyn Streams) -> Result<Option<u64>, String> {
        if self.stream.is_none() {
            let Some(stream) = streams.open() else { return Ok(None) };
            send_wish(0, stream, streams)?;
            self.stream = Some(stream);
        }
        Ok(self.stream)
    }
}

impl Application for Upload {
    fn read(
        &mut self,
        streams: &mut dyn Streams,
        _take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), String> {
        self.attend(streams)
    }

    fn attend(&mut self, streams: &mut dyn Streams) -> Result<(), String> {
        let Some(stream) = self.stream.filter(|_| !self.is_confirmed) else { return Ok(()) };
        let mut answered = 0;
        let is_over = streams.read(stream, &mut |bytes| answered += bytes.len())?;
        if answered > 0 {
            return Err(format!("it answered with {answered} bytes, and was asked for none"));
        }
        if is_over && !self.is_finished {
            return Err(format!("it ended its answer amid the upload, after {} bytes", self.given));
        }
        self.is_confirmed = is_over;
        Ok(())
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let (due, _) = self.looks.filter(|_| !self.is_confirmed)?;
        Some(due.unwrap_or(Nanos::ZERO))
    }

    fn on_deadline(&mut self, now: Nanos, streams: &mut dyn Streams) -> Result<(), String> {
        let Some((due, before)) = self.looks.filter(|_| !self.is_confirmed) else { return Ok(()) };
        let acknowledged = streams.acknowledged();
        if due.is_some() && acknowledged == before {
            return Err(format!(
                "it acknowledged nothing more for {CONFIRMS_WITHIN}, and did not end its answer"
            ));
        }
        self.looks = Some((Some(now + CONFIRMS_WITHIN), acknowledged));
        Ok(())
    }

    fn state(&self) -> ApplicationState {
        ApplicationState { has_ended: self.is_confirmed, is_settled: self.is_confirmed }
    }

    fn facts(&self) -> ApplicationFacts {
        let awaits =
            if self.is_finished { "before it confirmed the upload" } else { "amid the upload" };
        ApplicationFacts { awaits: Some(awaits.to_owned()), ..ApplicationFacts::default() }
    }

    fn takes(&mut self) -> Takes<'_> {
        Takes::Bulk(self)
    }
}

impl TakesBulk for Upload {
    fn give(&mut self, bytes: &[u8], streams: &mut dyn Streams) -> Result<usize, String> {
        let Some(stream) = self.opened(streams)? else { return Ok(0) };
        let taken = streams.write(stream, bytes)?;
        self.given += taken as u64;
        Ok(taken)
    }

    fn finish(&mut self, streams: &mut dyn Streams) {
        if let Ok(Some(stream)) = self.opened(streams) {
            streams.finish(stream);
            self.is_finished = true;
            self.looks = Some((None, streams.acknowledged()));
        }
    }
}
