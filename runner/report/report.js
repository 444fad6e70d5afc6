"use strict";
// Reading needs none of this: a filter over the samples, and links that open what they point to.
const samples = [...document.querySelectorAll("details.sample")];
const box = document.getElementById("filter");
const told = document.getElementById("filtered");
function sift() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const one of samples) {
    const fits = words.every((word) => one.dataset.find.includes(word));
    one.hidden = !fits;
    shown += fits ? 1 : 0;
  }
  for (const group of document.querySelectorAll(".group")) {
    group.hidden = !group.querySelector("details.sample:not([hidden])");
  }
  told.textContent = words.length ? `${shown} of ${samples.length}` : "";
}
function reveal() {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id && document.getElementById(id);
  if (!target) return;
  for (let one = target.closest("details"); one; one = one.parentElement.closest("details")) {
    one.hidden = false;
    one.open = true;
  }
  target.scrollIntoView();
}
function step(by) {
  const open = samples.filter((one) => !one.hidden);
  if (!open.length) return;
  const here = open.findIndex((one) => one.contains(document.activeElement));
  const next = open[Math.min(open.length - 1, Math.max(0, here + by))];
  next.querySelector("summary").focus();
}
if (box) {
  box.closest(".filter").hidden = false;
  box.addEventListener("input", sift);
}
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest && event.target.closest("input");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j") step(1);
  if (event.key === "k") step(-1);
  if (event.key === "/" && box) { event.preventDefault(); box.focus(); }
});
window.addEventListener("hashchange", reveal);
reveal();
