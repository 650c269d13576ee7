"use strict";
(() => {
  const { data, make, svg, count, colour } = page;
  const holder = document.getElementById("rows");
  if (!holder) return;
  const found = data.ladder;
  const rows = found.groups.flatMap((g) => g.rows);
  const longest = Math.max(1, found.longest);
  const share = (tokens) => (100 * Math.min(tokens, longest)) / longest + "%";
  const height = rows.length > 160 ? 6 : rows.length > 80 ? 10 : rows.length > 48 ? 15 : page.narrow() ? 24 : 20;
  const dense = height < 15;
  document.documentElement.style.setProperty("--row", height + "px");
  document.documentElement.style.setProperty("--bar", Math.max(3, Math.round(height * 0.42)) + "px");
  if (dense) {
    holder.classList.add("dense");
    document.documentElement.style.setProperty("--side", "0px");
  }

  const mark = (symptom) => {
    const sign = svg("svg", { class: "mark", viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("use", { href: "#s-" + symptom }));
    if (found.colours[symptom]) sign.style.color = colour(found.colours[symptom]);
    return sign;
  };
  const zone = (kind, start, end) => {
    const bar = make("i", { class: kind });
    bar.style.left = share(start - 1);
    bar.style.width = share(Math.max(0, end - start + 1));
    return bar;
  };
  const said = (row) => {
    if (row.lost) return "lost";
    return row.onset === null ? "healthy, " + count(row.tokens) : row.words + (row.where || "") + " · " + count(row.onset);
  };

  const track = (row) => {
    const line = make("span", { class: "track" });
    const zones = row.zones.length ? row.zones : [["stable", 1, row.tokens]];
    for (const [kind, start, end] of zones) line.append(zone(kind, start, end));
    if (row.lost) line.append(zone("lost", row.tokens + 1, longest));
    if (row.onset !== null && dense) {
      const tick = make("span", { class: "tick" });
      tick.style.left = share(row.onset - 1);
      line.append(tick);
    } else if (row.onset !== null) {
      const spot = make("span", { class: "onset" }), sign = mark(row.symptom);
      spot.style.left = sign.style.left = share(row.onset - 1);
      line.append(spot, sign);
    }
    return line;
  };

  const buttons = [];
  const build = (row, place) => {
    const button = make("button", { type: "button", class: "row", tabindex: place ? "-1" : "0", "aria-haspopup": "dialog",
      "aria-label": row.name + ", " + count(row.tokens) + " tokens, " + (row.onset === null && !row.lost ? "healthy" : said(row)), title: row.name + ": " + said(row) },
      track(row), make("span", { class: "tail", text: row.onset === null && !row.lost ? count(row.tokens) : said(row) }));
    button.addEventListener("click", () => open(place));
    buttons.push(button);
    return button;
  };

  const axis = () => {
    const line = make("div", { class: "axis", "aria-hidden": "true" });
    const step = [50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10000, 20000, 50000].find((s) => longest / s <= (page.narrow() ? 4 : 8)) || longest;
    for (let t = 0; t <= longest; t += step) {
      const tick = make("span", { text: count(t) });
      tick.style.left = share(t);
      line.append(tick);
    }
    return line;
  };

  let place = 0;
  holder.append(axis());
  for (const group of found.groups) {
    holder.append(make("h3", { text: group.title }), ...group.rows.map((row) => build(row, place++)));
  }
  holder.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (at < 0 || to === undefined || !buttons[to]) return;
    event.preventDefault();
    focus(to);
  });
  const focus = (to) => {
    buttons.forEach((b, i) => (b.tabIndex = i === to ? 0 : -1));
    buttons[to].focus();
  };

  const seen = new Map(rows.filter((r) => r.symptom).map((r) => [r.symptom, r.words]));
  const marks = document.getElementById("marks");
  for (const [symptom, words] of seen) marks.append(make("li", {}, mark(symptom), words));

  // The reader: a dialog with the text of one generation.
  const reader = document.getElementById("reader");
  const at = (id) => document.getElementById(id);
  let current = 0, leaving = false;
  const open = (to) => {
    show(to);
    if (!reader.open) reader.showModal();
  };
  const show = (to) => {
    current = to;
    const row = rows[to];
    at("reader-title").textContent = row.name;
    const facts = [count(row.tokens) + " tokens", row.ending, row.seed === null ? "no seed sent" : "seed " + row.seed];
    if (row.onset !== null) facts.splice(1, 0, row.words + (row.where || "") + " from token " + count(row.onset) + ", known at " + count(row.alarm));
    if (row.plane) facts.push(row.plane + " plane");
    at("reader-facts").textContent = facts.join(" · ");
    at("reader-said").textContent = row.said || "";
    reader.querySelector(".legend").hidden = row.onset === null;
    reader.querySelector(".key.first").hidden = reader.querySelector(".key.second").hidden = !row.parts.some((p) => p[0] === "second");
    at("reader-text").replaceChildren(...row.parts.map(([kind, text]) => {
      if (kind === "gap") return make("span", { class: "gap", text: " [… " + text + " …] " });
      return make(["first", "second", "after"].includes(kind) ? "mark" : "span", { class: kind, text });
    }));
    if (!row.parts.length) at("reader-text").textContent = "No text arrived.";
    at("reader-prompt").textContent = row.prompt || "–";
    at("reader-back").disabled = to === 0;
    at("reader-on").disabled = to === rows.length - 1;
    at("reader-depth").hidden = row.depth === null;
  };
  at("reader-close").addEventListener("click", () => reader.close());
  at("reader-back").addEventListener("click", () => show(current - 1));
  at("reader-on").addEventListener("click", () => show(current + 1));
  at("reader-depth").addEventListener("click", () => {
    leaving = true;
    reader.close();
  });
  // Closing returns the focus to the row, or continues with the generation's depth view.
  reader.addEventListener("close", () => {
    if (!leaving) return focus(current);
    leaving = false;
    page.showDepth(rows[current].depth);
    at("depth").scrollIntoView();
    at("which").focus();
  });
  reader.addEventListener("click", (event) => event.target === reader && reader.close());
})();
