//! Danger: a page that its writer has seen in the light of a screen, and that nobody can read where the desktop is
//! dark, or on paper: text without contrast, charts without colour, buttons that nobody can press.
//!
//! Looked at by a browser, in the styles that it has computed. Without Chromium these tests say so and pass.

mod common;
use common::pages::{browse, fixture, page_of, with_lines};
use credenza_bench::browser;
use serde_json::Value;
use std::path::Path;

/// Of text of this size, as WCAG 2 asks for.
const TEXT: f64 = 4.5;
/// Of what is drawn; each has its figure beside it as text.
const DRAWN: f64 = 2.0;

/// Has the page look at itself: contrasts of all text and of all that is drawn, least first, colours, and what
/// there is to press.
const LOOK: &str = r##"<script>
const look = () => {
  const numbers = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (colour) => colour.slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (colour, element) => {
    const [more, less] = [light(numbers(colour)), light(behind(element))].sort((a, b) => b - a);
    return (more + 0.05) / (less + 0.05);
  };
  const is_seen = (element) => element.getClientRects().length > 0 &&
    getComputedStyle(element).visibility === "visible" && element.checkVisibility();
  const least = (of) => of.sort((a, b) => a[0] - b[0])[0];
  const texts = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; node = walk.nextNode();) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("script, title") || !is_seen(element)) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    texts.push([contrast(colour, element), element.outerHTML.slice(0, 120)]);
  }
  const of = (what, property) => [...document.querySelectorAll(what)].filter(is_seen)
    .map((element) => [getComputedStyle(element)[property], element])
    .filter(([colour]) => colour !== "none");
  const drawn = [...of(".bar, .p50, .dot:not(.out)", "fill"),
    ...of(".line path, .whisker, .reference, .span", "stroke")];
  const all = (what) => [...document.querySelectorAll(what)];
  const figures = all("figure").filter((figure) => [...figure.querySelectorAll("svg.plot")]
    .some((plot) => is_seen(plot) && plot.getBoundingClientRect().width > 20));
  return {
    print: matchMedia("print").matches,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    paper: light(behind(document.body)),
    ink: light(numbers(getComputedStyle(document.body).color)),
    texts: texts.length,
    text: least(texts),
    drawn: least(drawn.map(([colour, element]) => [contrast(colour, element), element.outerHTML.slice(0, 120)])),
    colours: [...new Set(drawn.map(([colour]) => colour))].sort(),
    figures: figures.length,
    controls: all("nav, .export button, output, .hint, .points, input, select").filter(is_seen).length,
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
};
const tell = () => console.log("LOOK" + JSON.stringify(look()) + "KOOL");
addEventListener("load", () => {
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
  if (location.hash !== "#print") tell();
});
matchMedia("print").addEventListener("change", (print) => print.matches && tell());
</script></body>"##;

/// What the page of a report with every kind of chart is like, for a desktop of this scheme; and how many charts
/// there are to be seen.
fn looked_at(browser: &Path, is_dark: bool, is_printed: bool) -> (Value, usize) {
    let (folder, path, page) = page_of(&with_lines(fixture()));
    std::fs::write(&path, page.replace("</body>", LOOK)).unwrap();
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark));
    let (pdf, mut place) = (folder.path().join("page.pdf"), path.into_os_string());
    let printing = format!("--print-to-pdf={}", pdf.display());
    let mut more = vec![scheme.as_str(), "--dump-dom"];
    if is_printed {
        place.push("#print");
        more[1] = &printing;
    }
    let output = browse(browser, folder.path(), Path::new(&place), &more);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    if is_printed {
        let pdf = std::fs::read(pdf).unwrap();
        assert!(pdf.starts_with(b"%PDF-") && pdf.len() > 100_000, "{} bytes", pdf.len());
    }
    // The console has quotes of its own kind in front of what is said.
    let looks: Vec<&str> = said.split("LOOK{").skip(1).collect();
    assert_eq!(looks.len(), 1, "{said}");
    let (look, _) = looks[0].split_once("}KOOL").expect("an end");
    let look = serde_json::from_str(&format!("{{{look}}}")).unwrap();
    (look, page.matches("<figure").count())
}

fn number(look: &Value, name: &str) -> f64 {
    look[name].as_f64().unwrap_or_else(|| panic!("{name} in {look}"))
}

/// All text, and all that is drawn, can be told from what is behind it; every chart is there.
fn is_legible(look: &Value, figures: usize) {
    assert!(number(look, "texts") > 500.0, "{look}");
    for (name, wanted) in [("text", TEXT), ("drawn", DRAWN)] {
        let least = look[name][0].as_f64().unwrap();
        assert!(least >= wanted, "{name}: {least} to 1, of {}", look[name][1]);
    }
    assert_eq!(number(look, "figures"), figures as f64, "charts are not to be seen");
}

#[test]
fn a_dark_desktop_has_a_dark_page_that_can_be_read() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    let [light, dark] = [false, true].map(|is_dark| {
        let (look, figures) = looked_at(&browser, is_dark, false);
        assert_eq!((&look["dark"], &look["print"]), (&is_dark.into(), &false.into()));
        is_legible(&look, figures);
        assert!(number(&look, "controls") > 0.0, "{look}");
        look
    });
    assert!(number(&light, "paper") > 0.8 && number(&light, "ink") < 0.05, "{light}");
    assert!(number(&dark, "paper") < 0.05 && number(&dark, "ink") > 0.7, "{dark}");
    // Not one colour of the charts is left as it was.
    let colours = |look: &Value| look["colours"].as_array().unwrap().clone();
    assert_eq!(colours(&light).len(), colours(&dark).len(), "{light} {dark}");
    assert!(colours(&light).len() >= 6, "{light}");
    for colour in colours(&dark) {
        assert!(!colours(&light).contains(&colour), "{colour} is also that of the light page");
    }
}

/// What is printed is what a browser prints, also of a dark desktop: on white, all charts, nothing to press.
#[test]
fn paper_has_all_charts_and_nothing_to_press() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium on this machine (apt-get install chromium)");
        return;
    };
    for is_dark in [false, true] {
        let (look, figures) = looked_at(&browser, is_dark, true);
        assert_eq!(look["print"], true);
        is_legible(&look, figures);
        assert_eq!((number(&look, "paper"), number(&look, "ink")), (1.0, 0.0), "{look}");
        assert_eq!(number(&look, "controls"), 0.0, "{look}");
        assert!(number(&look, "wide") <= 0.0, "what is printed is cut off: {look}");
    }
}
