"use strict";
// Without this script every page works: tooltips are then those of the browser.
(function () {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true");
  tip.hidden = true;
  document.body.appendChild(tip);

  for (const title of document.querySelectorAll("svg.bar title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const place = (event) => {
    const margin = 14;
    const left = Math.min(event.clientX + margin, innerWidth - tip.offsetWidth - 8);
    const above = event.clientY - tip.offsetHeight - margin;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above > 8 ? above : event.clientY + margin) + "px";
  };
  for (const bar of document.querySelectorAll("svg.bar")) {
    bar.addEventListener("pointermove", (event) => {
      const segment = event.target.closest("[data-tip]");
      tip.hidden = !segment;
      if (!segment) return;
      const [head, ...rest] = segment.dataset.tip.split("\n");
      const strong = document.createElement("strong");
      strong.textContent = head;
      tip.replaceChildren(strong, ...rest.map((line) => {
        const row = document.createElement("div");
        row.textContent = line;
        return row;
      }));
      place(event);
    });
    bar.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
  for (const row of document.querySelectorAll("[data-category]")) {
    const bar = row.closest("section").querySelector("svg.bar");
    if (!bar) continue;
    row.addEventListener("pointerenter", () => bar.setAttribute("data-only", row.dataset.category));
    row.addEventListener("pointerleave", () => bar.removeAttribute("data-only"));
  }
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of closed) details.open = false; });
})();
