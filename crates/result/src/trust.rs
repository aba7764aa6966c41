//! Trust in a race: the reasons that speak against it, from its control and its warnings.

use super::outcome::{Outcome, UNTRUSTED_EXCLUSIONS, UNTRUSTED_GATE, UNTRUSTED_STATE};

impl Outcome {
    /// Returns true if the control and the gates show no problem.
    pub fn trusted(&self) -> bool {
        self.why_not_trusted().is_none()
    }

    /// Returns the first reason why the race cannot be trusted; `None` if it can.
    pub fn why_not_trusted(&self) -> Option<&str> {
        self.doubts().next()
    }

    /// Returns all reasons why the race cannot be trusted.
    pub fn doubts(&self) -> impl Iterator<Item = &str> {
        let codes = [UNTRUSTED_GATE, UNTRUSTED_EXCLUSIONS, UNTRUSTED_STATE];
        let control = self.control.iter().filter(|control| !control.trusted);
        let warnings = self.warnings.iter().filter(move |one| codes.contains(&one.code.as_str()));
        let control = control.map(|control| control.note.as_str());
        control.chain(warnings.map(|one| one.message.as_str()))
    }

    /// Sets the fields that say whether the race is trusted, from its control and its warnings.
    pub fn settle_trust(&mut self) {
        let doubts: Vec<String> = self.doubts().map(str::to_owned).collect();
        (self.trusted, self.why_not_trusted) = (doubts.is_empty(), doubts);
    }
}
