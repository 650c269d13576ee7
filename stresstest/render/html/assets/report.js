"use strict";
// Shared by the page's scripts. Untrusted text is inserted only through textContent.
const page = { data: JSON.parse(document.getElementById("data").textContent), redraws: [] };

page.make = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (key === "class") node.className = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
};

page.svg = (name, attributes = {}, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

page.count = (n) => (n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en-US"));
page.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
page.narrow = () => window.innerWidth <= 640;

page.redraw = () => page.redraws.forEach((draw) => draw());

// Colour scheme: the system's setting until the button is used; print is always light.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", "Switch to " + (dark() ? "light" : "dark") + " colours");
    button.setAttribute("aria-pressed", String(dark()));
    page.redraw();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  let before;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    page.redraw();
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    show();
  });
  show();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    page.redraw();
  });
})();
