//! Conclusions from the trials of a race: summaries, verdicts, differences, warnings; and races against each other.
//! The same result always gives the same.
//!
//! | file | purpose |
//! |---|---|
//! | [`derived`] | everything derived from the trials, while a race runs and when it is read |
//! | [`verdicts`], [`claims`] | from trials to summary and verdicts; what is claimed, and at which level |
//! | `table` | figures by contender and block, and the log-ratios that they make |
//! | [`course`] | the work over time, before, during and after a load |
//! | `control` | a contender against its hidden copy |
//! | [`sentence`] | verdicts in words |
//! | [`differences`] | differences in conditions between contenders, and why they matter |
//! | [`warnings`], [`notice`], [`host_notice`], [`causes`], `loss_words` | warnings to read before believing a race, found and worded; the causes that advice follows from |
//! | [`exclusions`], `order`, `settings`, [`losses`], `path_account` | what they are found in: trials taken by gates, places in a block, settings that changed, lost messages, the account of a path |
//! | [`path_ways`] | behaviour of an emulated path over a race |
//! | [`shares`] | shares of variation that each condition accounts for, in a race over conditions |
//! | [`sweep`] | the knee of each contender, in a race over offered loads |
//! | [`theory`] | closed forms beside the measurement |
//! | [`spread`], [`pooled`] | spread of figures, for drawings; pooled round trips, from raw samples |
//! | [`mod@highs`] | highs and lows of a race over hours or days |
//! | [`mod@compare`], [`independent`] | saved races against each other; verdicts on trials that are no pairs |
//! | [`translated`] | translation of addresses between the ends, behind which a floor may be another host's |
//! | [`kind`], [`conditions`] | what makes races runs of the same thing; conditions that differ between them |
//! | [`mod@history`] | the same race again and again: series and changes of level |

pub mod causes;
pub mod claims;
pub mod compare;
pub mod conditions;
mod control;
pub mod course;
pub mod derived;
pub mod differences;
pub mod exclusions;
mod fallbacks;
pub mod headline;
pub mod highs;
pub mod history;
pub mod host_notice;
pub mod independent;
pub mod kind;
mod library_limits;
mod loss_words;
pub mod losses;
pub mod notice;
mod order;
mod own_state;
mod path_account;
pub mod path_ways;
pub mod pooled;
pub mod sentence;
mod settings;
pub mod shares;
pub mod spread;
pub mod sweep;
mod table;
pub mod theory;
pub mod translated;
pub mod verdicts;
pub mod warnings;
