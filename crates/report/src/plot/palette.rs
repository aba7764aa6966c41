//! Colours of contenders and of parts, for light and dark pages.
//!
//! A contender has the colour of its transport. If several share one, they have shades of it, and
//! each colour is made lighter or darker until it contrasts with the page, by 3:1 at least (WCAG
//! 2.2, 1.4.11).
//! Marks and lines also differ in shape and dashes.

pub use super::ink::CLASSES;
use deadheat_result::outcome::Outcome;

/// A colour on a light page and on a dark one, each as `#rrggbb`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tint {
    /// Colour on a light page.
    pub light: String,
    /// Colour on a dark page.
    pub dark: String,
}

/// Backgrounds that colours must contrast with; pages use these or more distant ones.
pub const LIGHT_PAGE: &str = "#ffffff";
/// Dark background.
pub const DARK_PAGE: &str = "#15191e";

/// Minimum contrast of a mark to its page. On dark pages thin marks look dimmer than they are.
const CONTRAST: f64 = 3.0;
const CONTRAST_ON_DARK: f64 = 4.5;

/// Minimum distance in OKLab of two colours that look different.
const NEAR: f64 = 0.08;

/// Weights of lightness in the distance of two colours: of marks and lines, where a darker blue is still a blue, and of
/// areas, which touch each other.
const OF_MARKS: f64 = 0.25;
const OF_AREAS: f64 = 1.0;

/// Colours for transports without a readable colour, and for contenders after all shades: Okabe
/// and Ito 2008, "Color Universal Design".
const OTHERS: [&str; 7] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8d91"];

/// Returns the number of a contender, which determines its colour, shape and dashes: in a race over conditions
/// the number of the contender as typed.
pub fn number(outcome: &Outcome, id: usize) -> usize {
    let entrant = outcome.contenders.iter().find(|entrant| entrant.id == id);
    entrant.and_then(|entrant| entrant.cell.as_ref()).map_or(id, |cell| cell.contender)
}

/// Returns the number of the load beside a contender: that of the contender that it is, too, or else one of its own.
pub fn load_number(outcome: &Outcome, id: usize) -> usize {
    let load = outcome.contests.iter().find(|contest| contest.contender == id);
    let same = |spec: &str| outcome.asked.contenders.iter().position(|typed| typed == spec);
    let number = load.and_then(|contest| same(&contest.load));
    number.filter(|own| *own != self::number(outcome, id)).unwrap_or_else(|| count(outcome))
}

fn count(outcome: &Outcome) -> usize {
    let numbers = outcome.contenders.iter().map(|entrant| number(outcome, entrant.id));
    numbers.max().map_or(0, |last| last + 1)
}

/// Returns the colour of each number, from 0 on: `--c0`, `--c1` and so on. Where there are loads, one more is for a load
/// that is no contender.
pub fn tints(outcome: &Outcome) -> Vec<Tint> {
    let contenders = || outcome.contenders.iter();
    let loads = usize::from(!outcome.contests.is_empty());
    let colour = |at| contenders().find(|e| number(outcome, e.id) == at).map(|e| e.colour.as_str());
    apart((0..count(outcome) + loads).map(colour), NEAR, OF_MARKS)
}

/// Returns the colours of the lines of a study, which are of no contender.
pub fn lines() -> Vec<Tint> {
    apart([None; 10].into_iter(), NEAR, OF_MARKS)
}

/// Returns a colour of areas for each contender, from the colour of its transport: paler than marks, and so
/// further apart.
pub fn areas<'a>(colours: impl Iterator<Item = &'a str>) -> Vec<Tint> {
    apart(colours.map(Some), NEAR / PALE, OF_AREAS)
}

/// Returns a distinct colour for each contender, from the colour of its transport: any two are `near`
/// at least apart in OKLab, where lightness has the weight `light`, or as far as shades allow.
fn apart<'a>(colours: impl Iterator<Item = Option<&'a str>>, near: f64, light: f64) -> Vec<Tint> {
    let mut taken: Vec<(Lab, Tint)> = Vec::new();
    for (at, colour) in colours.take(CLASSES).enumerate() {
        let own = colour.and_then(Lab::parse);
        let base = own.or_else(|| Lab::parse(OTHERS[at % OTHERS.len()]));
        let base = base.unwrap_or(Lab { light: 0.5, a: 0.0, b: 0.0 });
        let shade = (0..SHADES.len()).map(|shade| base.shade(shade));
        let gap = |lab: &Lab| {
            taken.iter().map(|(other, _)| other.distance(lab, light)).fold(f64::INFINITY, f64::min)
        };
        let furthest = || shade.clone().max_by(|a, b| gap(a).total_cmp(&gap(b)));
        let lab = shade.clone().find(|lab| gap(lab) > near).or_else(furthest).unwrap_or(base);
        let tint = Tint { light: lab.against(LIGHT_PAGE), dark: lab.against(DARK_PAGE) };
        taken.push((lab, tint));
    }
    taken.into_iter().map(|(_, tint)| tint).collect()
}

/// Number of the grey part: the rest, noise.
pub const GREY: usize = 14;

/// Returns the colours of parts of a whole, from 0 on: `--p0`, `--p1` and so on. Neighbours differ in
/// lightness, too; the last is [`GREY`].
pub fn parts() -> Vec<Tint> {
    let hues = [255.0, 255.0, 60.0, 60.0, 160.0, 160.0, 340.0, 340.0, 95.0, 95.0, 210.0, 210.0];
    hues.iter()
        .chain(&[25.0, 300.0])
        .enumerate()
        .map(|(at, hue)| {
            let lab = Lab::new(if at % 2 == 0 { 0.52 } else { 0.68 }, 0.11, *hue);
            Tint { light: lab.against(LIGHT_PAGE), dark: lab.against(DARK_PAGE) }
        })
        .chain([Tint { light: "#8a9099".into(), dark: "#79828d".into() }])
        .collect()
}

/// Differences of shades from their base: in lightness, in chroma as a factor, and in hue in degrees.
const SHADES: [(f64, f64, f64); 8] = [
    (0.0, 1.0, 0.0),
    (0.16, 0.85, 18.0),
    (-0.14, 0.9, -22.0),
    (0.08, 1.0, 45.0),
    (0.02, 0.9, -50.0),
    (0.2, 0.7, -30.0),
    (-0.1, 0.6, 75.0),
    (0.1, 0.8, -85.0),
];

/// A colour in OKLab (Ottosson 2020), in which equal distances look about equally far.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Lab {
    light: f64,
    a: f64,
    b: f64,
}

impl Lab {
    /// Creates a colour from lightness, chroma and hue in degrees.
    fn new(light: f64, chroma: f64, hue: f64) -> Lab {
        let hue = hue.to_radians();
        Lab { light, a: chroma * hue.cos(), b: chroma * hue.sin() }
    }

    /// Parses `#rrggbb`.
    fn parse(text: &str) -> Option<Lab> {
        let [r, g, b] = linear(text)?;
        let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
        let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
        let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
        Some(Lab {
            light: 0.210_454_255_3 * l + 0.793_617_785 * m - 0.004_072_046_8 * s,
            a: 1.977_998_495_1 * l - 2.428_592_205 * m + 0.450_593_709_9 * s,
            b: 0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766 * s,
        })
    }

    /// Formats the colour as `#rrggbb`, brought to the nearest that a screen can show.
    fn hex(&self) -> String {
        let l = (self.light + 0.396_337_777_4 * self.a + 0.215_803_757_3 * self.b).powi(3);
        let m = (self.light - 0.105_561_345_8 * self.a - 0.063_854_172_8 * self.b).powi(3);
        let s = (self.light - 0.089_484_177_5 * self.a - 1.291_485_548 * self.b).powi(3);
        let rgb = [
            4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
            -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
            -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
        ];
        let [r, g, b] = rgb.map(|linear| {
            let linear = linear.clamp(0.0, 1.0);
            let value = if linear <= 0.003_130_8 {
                12.92 * linear
            } else {
                1.055 * linear.powf(1.0 / 2.4) - 0.055
            };
            (value * 255.0).round() as u8
        });
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    fn shade(&self, shade: usize) -> Lab {
        let (light, chroma, turn) = SHADES[shade % SHADES.len()];
        let hue = self.b.atan2(self.a).to_degrees() + turn;
        // Grey has no hue to rotate.
        let own = self.a.hypot(self.b).max(if shade == 0 { 0.0 } else { 0.05 });
        Lab::new((self.light + light).clamp(0.25, 0.85), own * chroma, hue)
    }

    fn distance(&self, other: &Lab, light: f64) -> f64 {
        let light = light * (self.light - other.light);
        let squares = [light, self.a - other.a, self.b - other.b];
        squares.iter().map(|d| d * d).sum::<f64>().sqrt()
    }

    /// Returns the nearest lightness of the colour that contrasts with `page`, as `#rrggbb`.
    fn against(&self, page: &str) -> String {
        let (step, least) =
            if luminance(page) > 0.5 { (-0.01, CONTRAST) } else { (0.01, CONTRAST_ON_DARK) };
        (0..100)
            .map(|n| {
                Lab { light: (self.light + step * f64::from(n)).clamp(0.0, 1.0), ..*self }.hex()
            })
            .find(|hex| contrast(hex, page) >= least)
            .unwrap_or_else(|| self.hex())
    }
}

/// Returns the three channels of `#rrggbb` without their gamma (IEC 61966-2-1).
fn linear(text: &str) -> Option<[f64; 3]> {
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
    let value = u32::from_str_radix(digits, 16).ok()?;
    Some([16, 8, 0].map(|shift| {
        let channel = f64::from((value >> shift) & 0xff) / 255.0;
        if channel <= 0.040_45 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
    }))
}

/// Returns the relative luminance (WCAG 2.2).
fn luminance(text: &str) -> f64 {
    linear(text).map_or(0.0, |[r, g, b]| 0.2126 * r + 0.7152 * g + 0.0722 * b)
}

/// Returns the contrast of two colours, from 1 to 21 (WCAG 2.2).
fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Opacity of an area with letters on it: class `f2` of the style.
pub(super) const PALE: f64 = 0.42;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_survives_the_way_there_and_back() {
        for hex in ["#0072b2", "#ffffff", "#000000", "#e6762e"] {
            assert_eq!(Lab::parse(hex).unwrap().hex(), hex);
        }
        for bad in ["red", "#12345", "#12345g", "#é1234", ""] {
            assert_eq!(Lab::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn contenders_of_like_colours_get_other_hues() {
        // The colours of tcp and quic once, and two settings of one transport.
        for pair in [["#0072b2", "#2f6fb7"], ["#0072b2"; 2], ["#e6762e", "#c0602f"]] {
            let tints = apart(pair.into_iter().map(Some), NEAR, OF_MARKS);
            let hue = |tint: &Tint| {
                let lab = Lab::parse(&tint.light).unwrap();
                lab.b.atan2(lab.a).to_degrees()
            };
            let turn = (hue(&tints[0]) - hue(&tints[1])).rem_euclid(360.0);
            assert!((20.0..=340.0).contains(&turn), "{pair:?}: {tints:?}");
        }
    }

    #[test]
    fn every_shade_and_part_stands_out_on_both_pages() {
        let bases = OTHERS.iter().filter_map(|hex| Lab::parse(hex));
        let shades = bases.flat_map(|base| (0..SHADES.len()).map(move |at| base.shade(at)));
        for lab in shades {
            for page in [LIGHT_PAGE, DARK_PAGE] {
                assert!(contrast(&lab.against(page), page) >= CONTRAST, "{lab:?} on {page}");
            }
        }
        for part in parts() {
            assert!(contrast(&part.light, LIGHT_PAGE) >= CONTRAST, "{part:?}");
            assert!(contrast(&part.dark, DARK_PAGE) >= CONTRAST, "{part:?}");
        }
    }
}
