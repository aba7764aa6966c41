//! DSCPs that arrived other than they were sent: something on the way rewrites them.

use std::fmt;

use crate::outcome::{Entrant, Outcome};
use deadheat_contract::dscp::{ARRIVED_DSCP, DSCP, Dscp};
use deadheat_contract::measurements::Effective;

pub(super) const ADVICE: &str = "queues behind it treat these packets by what arrived: ask the path's operator, or race \
                                 without dscp";

/// DSCP that arrived other than it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RewrittenDscp {
    /// Label of the contender.
    pub label: String,
    /// DSCP that was set.
    pub sent: String,
    /// DSCP that arrived.
    pub arrived: String,
    /// End at which it arrived: `near` or `far`.
    pub end: &'static str,
}

impl fmt::Display for RewrittenDscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RewrittenDscp { label, sent, arrived, end } = self;
        write!(
            f,
            "packets of {label} left with the DSCP {sent} and arrived with {arrived} at the {end} end: something on the \
             way rewrites it"
        )
    }
}

/// Returns a notice for each contender and direction with such a DSCP.
pub(crate) fn notices(outcome: &Outcome) -> Vec<RewrittenDscp> {
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing());
    racing.flat_map(of_entrant).collect()
}

fn of_entrant(entrant: &Entrant) -> Vec<RewrittenDscp> {
    let (near, far) = (&entrant.effective, &entrant.far_effective);
    [("far", near, far), ("near", far, near)]
        .into_iter()
        .flat_map(|(end, sender, receiver)| {
            let rewritten = receiver.iter().filter_map(|(name, arrived)| {
                let prefix = name.strip_suffix(ARRIVED_DSCP)?;
                Some((sent(sender, prefix), arrived)).filter(|(sent, arrived)| sent != *arrived)
            });
            rewritten.map(move |(sent, arrived)| {
                let (label, arrived) = (entrant.label.clone(), arrived.clone());
                RewrittenDscp { label, sent, arrived, end }
            })
        })
        .collect()
}

/// Returns the DSCP that an end, or a part of its contender, set; without one the kernel's default.
fn sent(sender: &Effective, prefix: &str) -> String {
    let set = sender.get(&format!("{prefix}{DSCP}"));
    set.cloned().unwrap_or_else(|| Dscp::DEFAULT.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn with(near: &[(&str, &str)], far: &[(&str, &str)]) -> Vec<String> {
        let mut outcome = testing::outcome(2);
        let own = |all: &[(&str, &str)]| -> Effective {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        (outcome.contenders[0].effective, outcome.contenders[0].far_effective) =
            (own(near), own(far));
        notices(&outcome).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_codepoint_is_compared_with_what_its_sender_set_in_each_direction() {
        let kept = [("dscp", "EF"), ("arrived_dscp", "EF")];
        assert!(with(&kept, &kept).is_empty());
        assert!(with(&[], &[("arrived_dscp", "CS0")]).is_empty(), "nothing was asked for");
        assert!(with(&[("dscp", "EF")], &[]).is_empty(), "it is not known what arrived");
        let found = with(&kept, &[("dscp", "EF"), ("arrived_dscp", "CS1")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("EF") && found[0].contains("CS1 at the far end"), "{found:?}");
        let found = with(&[("arrived_dscp", "CS0")], &[("dscp", "AF41")]);
        assert!(found[0].contains("AF41") && found[0].contains("CS0 at the near end"), "{found:?}");
        let found = with(&[], &[("arrived_dscp", "CS1")]);
        assert!(found[0].contains("CS0") && found[0].contains("CS1 at the far end"), "{found:?}");
    }

    #[test]
    fn the_parts_of_a_mix_are_compared_each_with_itself() {
        let near = [("events.dscp", "EF"), ("state.dscp", "CS1")];
        let far = [("events.arrived_dscp", "EF"), ("state.arrived_dscp", "CS0")];
        let found = with(&near, &far);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("CS1"), "{found:?}");
    }
}
