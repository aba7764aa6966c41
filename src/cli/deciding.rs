//! Options for the decisions that a race must reach, and the exit code if it does not.

use deadheat_base::error::{Error, Result};
use deadheat_base::units::parse_share;
use deadheat_race::race::Request;
use deadheat_race::race::request::CheckedRequest;
use deadheat_records::idle::Idle;
use deadheat_result::outcome::Outcome;
use deadheat_stats::Outcome as VerdictOutcome;

use super::Verdict;

#[derive(Debug, clap::Args)]
pub(super) struct DecisionOptions {
    /// Run until a difference of SHARE would be found
    ///
    /// Such as 2%. It prints first how long that takes. The margin stays as it is.
    #[arg(long, value_name = "SHARE")]
    resolve: Option<String>,
    /// Run all blocks, whatever they decide, with one look after the last
    ///
    /// For claims about figures that have no verdict. A budget still ends a race.
    #[arg(long, hide_short_help = true)]
    all_blocks: bool,
    /// End the race as soon as every claim is known, and not once it is also sharp
    ///
    /// A race goes on after that until it resolves the margin, which makes intervals narrower.
    #[arg(long, hide_short_help = true, conflicts_with = "all_blocks")]
    first: bool,
    /// Give verdicts on the floor as well: on ICMP, whose echo the far kernel answers
    #[arg(long, value_name = "WHICH", value_enum, hide_short_help = true)]
    claims: Option<ClaimScope>,
    /// Keep idle CPUs awake while trials run, or let them sleep as usual on this host
    ///
    /// Awake is the default where both ends are on this machine and the kernel allows it, as root, by
    /// /dev/cpu_dma_latency; but not for bulk data over loopback, which is slower that way. How long a CPU takes to wake up is the same for every transport, and on
    /// many virtual machines it varies more than they differ.
    #[arg(long, value_name = "awake|host", hide_short_help = true)]
    idle: Option<String>,
    /// Exit with 4 if any claim is undecided
    #[arg(long, hide_short_help = true)]
    decided: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClaimScope {
    /// Claims about every contender
    All,
}

impl DecisionOptions {
    /// Returns the request with these options.
    pub(super) fn ask(&self, request: Request) -> Result<Request> {
        let resolve = self.resolve.as_deref().map(|typed| share("resolution", typed, "2%"));
        Ok(request
            .with(resolve.transpose()?, Request::resolve)
            .with(self.idle.as_deref().map(Idle::parse).transpose()?, Request::idle)
            .when(self.all_blocks, Request::all_blocks)
            .when(self.first, Request::first)
            .when(self.claims.is_some(), Request::claims_all))
    }

    /// Checks that a race that must decide its claims asks for enough blocks to decide.
    ///
    /// # Errors
    /// [`Error::Usage`] with the minimum number of blocks.
    pub(super) fn check(&self, request: &Request, checked: &CheckedRequest) -> Result<()> {
        match request.too_few_blocks(checked).filter(|_| self.decided) {
            Some(why) => Err(Error::usage(format!("--decided: {why}"))),
            None => Ok(()),
        }
    }

    /// Returns the verdict of a command that ran these races.
    pub(super) fn verdict<'a>(&self, ran: impl IntoIterator<Item = &'a Outcome>) -> Verdict {
        let mut verdict = Verdict::Fine;
        for outcome in ran {
            if !outcome.trusted() {
                return Verdict::Doubtful;
            }
            let is_open = outcome.verdicts.iter().any(|v| v.outcome == VerdictOutcome::Undecided);
            if self.decided && is_open {
                verdict = Verdict::Undecided;
            }
        }
        verdict
    }
}

/// Parses a share. An error calls it `what`, such as `margin`.
pub(super) fn share(what: &str, typed: &str, example: &str) -> Result<f64> {
    let number = typed.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if !(0.0..=100.0).contains(&percent) => Err(Error::usage(format!(
            "a {what} of {percent} %: it must lie above 0 % and below 100 %, such as {example}"
        ))),
        _ => parse_share(typed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::testing;

    const DECIDED: DecisionOptions = DecisionOptions {
        resolve: None,
        all_blocks: false,
        first: false,
        claims: None,
        idle: None,
        decided: true,
    };

    #[test]
    fn shares_out_of_range_are_refused_with_what_would_be_right() {
        let say = |typed: &str| share("margin", typed, "5%").unwrap_err().to_string();
        assert_eq!(share("margin", "5%", "5%").unwrap(), 0.05);
        let wanted = "a margin of 200 %: it must lie above 0 % and below 100 %, such as 5%";
        assert_eq!(say("200%"), wanted);
        assert!(say("-1%").starts_with("a margin of -1 %: it must lie above"));
        assert!(say("5").contains("percent sign"));
    }

    #[test]
    fn blocks_that_cannot_decide_are_refused_where_a_decision_is_asked_for() {
        let ask = Request::new(["tcp", "udp"]);
        let checked = ask.check().unwrap();
        let said = DECIDED.check(&ask.clone().blocks(1), &checked).unwrap_err().to_string();
        assert_eq!(said, "--decided: 1 block cannot decide 1 claim; 6 are the fewest");
        assert!(DECIDED.check(&ask.clone().blocks(6), &checked).is_ok());
        let silent = DecisionOptions { decided: false, ..DECIDED };
        assert!(silent.check(&ask.blocks(1), &checked).is_ok());
    }

    #[test]
    fn an_undecided_claim_has_an_exit_code_where_that_is_asked_for() {
        let request = Request::new(["tcp", "udp"]).blocks(12).margin(0.05).seed(1);
        let mut outcome = testing::run(&request, testing::noisy(1, 0.001, |_| 100.0)).unwrap();
        let silent = DecisionOptions { decided: false, ..DECIDED };
        let ruled = |outcome: &Outcome| [DECIDED.verdict([outcome]), silent.verdict([outcome])];
        assert!(outcome.trusted());
        assert_eq!(ruled(&outcome), [Verdict::Fine; 2]);
        outcome.verdicts[0].outcome = VerdictOutcome::Undecided;
        assert_eq!(ruled(&outcome), [Verdict::Undecided, Verdict::Fine]);
        outcome.control.as_mut().unwrap().trusted = false;
        assert_eq!(ruled(&outcome), [Verdict::Doubtful; 2]);
    }
}
