"use strict";
(() => {
  const { data, make, svg, count, colour } = page;
  const percent = (v) => (v === null || v === undefined ? "–" : Math.round(100 * v) + " %");
  const FONT = '12px system-ui, -apple-system, "Segoe UI", sans-serif';

  const axis = (more = {}) => ({
    stroke: colour("muted"), font: FONT, gap: 4, grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, ...more,
  });
  const tokensAxis = (more = {}) => axis({
    values: (u, splits) => splits.map((v) => count(v)), grid: { show: false }, space: 70, size: 24, ...more,
  });

  // A vertical line with a label that stays inside the plot.
  const upright = (u, at, words, options = {}) => {
    const { left, top, width, height } = u.bbox;
    const x = Math.round(u.valToPos(at, "x", true));
    if (x < left || x > left + width) return;
    const c = u.ctx, dpr = devicePixelRatio || 1;
    c.save();
    c.strokeStyle = options.colour || colour("ink");
    c.lineWidth = (options.width || 1.5) * dpr;
    c.setLineDash((options.dash || []).map((d) => d * dpr));
    c.beginPath(); c.moveTo(x, top); c.lineTo(x, top + height); c.stroke();
    if (words) {
      c.font = "600 " + 12 * dpr + 'px system-ui, -apple-system, "Segoe UI", sans-serif';
      const wide = c.measureText(words).width, gap = 6 * dpr;
      const before = options.before ? x - left > wide + 2 * gap : left + width - x < wide + 2 * gap;
      const y = options.low === undefined ? top + (14 + 18 * (options.line || 0)) * dpr : top + height - (10 + 18 * options.low) * dpr;
      const from = before ? x - wide - gap : x + gap;
      c.fillStyle = colour("paper");
      c.fillRect(from - 3 * dpr, y - 12 * dpr, wide + 6 * dpr, 16 * dpr);
      c.fillStyle = options.colour || colour("ink");
      c.textAlign = "left"; c.textBaseline = "alphabetic";
      c.fillText(words, from, y);
    }
    c.restore();
  };

  // A result that certified nothing: a cross at the bottom of the plot.
  const unsure = (u, at, ink) => {
    const c = u.ctx, dpr = devicePixelRatio || 1, x = u.valToPos(at, "x", true), y = u.bbox.top + u.bbox.height - 8 * dpr, r = 4 * dpr;
    c.save();
    c.strokeStyle = ink; c.lineWidth = 2 * dpr;
    c.beginPath(); c.moveTo(x - r, y - r); c.lineTo(x + r, y + r); c.moveTo(x + r, y - r); c.lineTo(x - r, y + r); c.stroke();
    c.restore();
  };

  const place = (holder, options, columns) => {
    holder.replaceChildren();
    const width = holder.clientWidth || 600;
    return new uPlot({ width, legend: { show: false }, padding: [8, 12, 0, 0], ...options }, columns, holder);
  };

  const stepped = uPlot.paths.stepped({ align: 1 });
  const backwards = uPlot.paths.stepped({ align: -1 });

  const survival = () => {
    const holder = document.getElementById("survival");
    const found = data.survival;
    if (!holder || !found) return;
    const last = found.x[found.x.length - 1];
    holder.setAttribute("role", "img");
    holder.setAttribute("aria-label", "Share of requests still coherent by tokens. " +
      "At the last token observed, " + count(last) + ", it is " + percent(found.coherent[found.coherent.length - 1]) + ". " +
      (found.threshold === null ? "Nothing is certified." : "Certified up to " + count(found.threshold) + " tokens; safe max_tokens " + count(found.safe) + "."));
    place(holder, {
      height: page.narrow() ? 280 : 340,
      cursor: { y: false, points: { show: false } },
      scales: { x: { time: false, range: [0, last * 1.03] }, y: { range: [0, 1.02] } },
      axes: [tokensAxis({ label: "output tokens", labelSize: 20, labelGap: 2, labelFont: FONT }), axis({ values: (u, s) => s.map(percent), size: 54, splits: [0, 0.25, 0.5, 0.75, 1] })],
      series: [
        {},
        { stroke: "transparent", paths: stepped, points: { show: false } },
        { stroke: "transparent", paths: stepped, points: { show: false } },
        { stroke: colour("accent"), width: 2.25, paths: stepped, points: { show: false } },
        { stroke: colour("ink"), width: 1.75, dash: [5, 4], paths: backwards, points: { show: false } },
      ],
      bands: [{ series: [1, 2], fill: colour("band") }],
      hooks: {
        draw: [(u) => {
          const y = u.valToPos(1 - found.alpha, "y", true), c = u.ctx, dpr = devicePixelRatio || 1;
          c.save(); c.strokeStyle = colour("muted"); c.lineWidth = dpr; c.setLineDash([2 * dpr, 3 * dpr]);
          c.beginPath(); c.moveTo(u.bbox.left, y); c.lineTo(u.bbox.left + u.bbox.width, y); c.stroke();
          c.setLineDash([]); c.font = 12 * dpr + 'px system-ui, sans-serif'; c.fillStyle = colour("muted"); c.textAlign = "left";
          c.fillText("tolerated risk " + percent(found.alpha), u.bbox.left + 8 * dpr, y + 16 * dpr);
          c.restore();
          if (found.safe !== null) upright(u, found.safe, "safe " + count(found.safe), { colour: colour("accent"), before: true, low: 1, dash: [5, 3] });
          if (found.threshold !== null) upright(u, found.threshold, (found.open ? "certified ≥ " : "certified ") + count(found.threshold), { low: 0, before: page.narrow() });
        }],
      },
    }, [found.x, found.high, found.low, found.coherent, found.sure]);
  };

  // One generation in depth: panels with a common token axis and synchronised cursors.
  const PANELS = [
    ["The text", "entropy", "entropy", "nats, mean", (v) => v.toFixed(2), "no logprobs", null],
    ["The text", "repetition", "repetition", "of the last 64 tokens", percent, "no tokens", 1],
    ["The text", "language", "expected language", "of function words", percent, "no function words are listed for this language", 1],
    ["The server meanwhile", "kv", "KV cache", "in use", percent, "the server has no /metrics, or the answer ended between two readings", 1],
    ["The server meanwhile", "gpu", "GPU utilisation", "", percent, "no NVML, no exporter", 1],
    ["The server meanwhile", "latency", "token latency", "ms per token", (v) => v.toFixed(1) + " ms", "no arrival times", null],
  ];

  const shown = { depth: 0, at: 0, charts: [] };

  const shade = (u, found) => {
    const { left, top, width, height } = u.bbox;
    const c = u.ctx;
    c.save();
    for (const [kind, start, end] of found.zones) {
      if (kind === "stable") continue;
      const from = Math.max(left, u.valToPos(start, "x", true)), to = Math.min(left + width, u.valToPos(end, "x", true));
      c.globalAlpha = kind === "collapsed" ? 0.13 : 0.16;
      c.fillStyle = colour(kind);
      c.fillRect(from, top, Math.max(0, to - from), height);
    }
    c.restore();
  };

  // A page that scrolls under a resting mouse also sends mouse events. They must not take away the
  // values that the reader has chosen with the keyboard: only a mouse that moves does.
  const unlessKeyboard = (u, target, handle) => (event) => {
    if (event.movementX || event.movementY) shown.byKeyboard = false;
    if (!shown.byKeyboard) handle(event);
    return null;
  };

  const panel = (holder, found, [group, key, name, unit, say, why, most], last) => {
    const values = found[key];
    const machine = group !== "The text";
    const out = make("output", { text: " " });
    const title = make("div", { class: "name" }, make("b", { text: name }), make("span", { class: "muted", text: unit }), out);
    const box = make("div", { class: "panel" }, title);
    holder.append(box);
    if (!values.length) {
      box.append(make("p", { class: "nothing", text: "not measured: " + why }));
      return;
    }
    const known = values.filter((v) => v !== null);
    const chart = make("div", { class: "chart", role: "img", "aria-label": name + " over tokens, from " + say(Math.min(...known)) + " to " + say(Math.max(...known)) });
    box.append(chart);
    const top = most || Math.max(...known) * 1.15 || 1;
    shown.charts.push(place(chart, {
      height: last ? 130 : 88,
      padding: [9, 12, last ? 0 : 9, 0],
      cursor: { y: false, points: { size: 6 }, sync: { key: "depth" }, bind: { mousemove: unlessKeyboard, mouseenter: unlessKeyboard, mouseleave: unlessKeyboard } },
      scales: { x: { time: false, range: [0, found.ends[found.ends.length - 1]] }, y: { range: [0, top] } },
      axes: [
        last ? tokensAxis({ label: "output tokens", labelSize: 18, labelGap: 0, labelFont: FONT }) : { show: false },
        axis({ size: 54, splits: [0, top / 2, top], values: (u, s) => s.map((v) => (most ? percent(v) : v.toFixed(top < 10 ? 1 : 0))), grid: { show: false } }),
      ],
      series: [{}, { stroke: colour(machine ? (key === "kv" && Math.max(...known) >= 0.95 ? "collapsed" : "good") : "accent"), width: 1.75, points: { show: false }, spanGaps: false }],
      hooks: {
        drawClear: [(u) => shade(u, found)],
        draw: [(u) => found.onset !== null && upright(u, found.onset, key === "entropy" ? "onset " + count(found.onset) : "", { colour: colour("collapsed"), width: 1.5 })],
        setCursor: [(u) => {
          const i = u.cursor.idx;
          out.textContent = i === null || i === undefined ? " " : values[i] === null ? "–" : say(values[i]);
        }],
      },
    }, [found.ends, values]));
  };

  const depths = () => {
    const holder = document.getElementById("panels");
    if (!holder || !data.depths.length) return;
    holder.replaceChildren();
    shown.charts = [];
    const found = data.depths[shown.depth];
    const last = PANELS.reduce((kept, p, i) => (found[p[1]].length ? i : kept), 0);
    let group = "";
    PANELS.forEach((p, i) => {
      if (p[0] !== group) holder.append(make("p", { class: "group", text: (group = p[0]) }));
      panel(holder, found, p, i === last);
    });
  };

  const which = document.getElementById("which");
  page.showDepth = (place_) => {
    shown.depth = place_;
    which.value = String(place_);
    depths();
  };
  if (which) {
    const rows = new Map(data.ladder.groups.flatMap((g) => g.rows.map((r) => [r.key, r])));
    data.depths.forEach((found, i) => {
      const row = rows.get(found.key);
      const what = row && row.onset !== null ? row.words + (row.where || "") + " from token " + count(row.onset) : "healthy, " + count(row ? row.tokens : null) + " tokens";
      which.append(make("option", { value: String(i), text: found.name + ": " + what }));
    });
    which.addEventListener("change", () => page.showDepth(Number(which.value)));
  }

  // Keyboard control of the cursor: each step is a fortieth of the answer.
  const panels = document.getElementById("panels");
  if (panels) panels.addEventListener("keydown", (event) => {
    const ends = data.depths[shown.depth].ends, step = Math.max(1, Math.round(ends.length / 40));
    const to = { ArrowRight: shown.at + step, ArrowLeft: shown.at - step, Home: 0, End: ends.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    shown.byKeyboard = true;
    shown.at = Math.max(0, Math.min(ends.length - 1, to));
    for (const chart of shown.charts) chart.setCursor({ left: chart.valToPos(ends[shown.at], "x"), top: 1 });
  });

  // The curves of several runs in one chart.
  const compared = () => {
    const holder = document.getElementById("compared");
    if (!holder) return;
    const found = data.compared;
    if (!found) { holder.replaceChildren(make("p", { class: "empty", text: "No run has a curve yet." })); return; }
    const last = found.x[found.x.length - 1];
    holder.setAttribute("role", "img");
    holder.setAttribute("aria-label", "Share still coherent by tokens, one line a run: " + found.runs.map((r) => r.letter + " safe " + count(r.safe)).join(", "));
    place(holder, {
      height: page.narrow() ? 280 : 340,
      cursor: { y: false, points: { show: false } },
      scales: { x: { time: false, range: [0, last * 1.03] }, y: { range: [0, 1.02] } },
      axes: [tokensAxis({ label: "output tokens", labelSize: 20, labelGap: 2, labelFont: FONT }), axis({ values: (u, s) => s.map(percent), size: 54, splits: [0, 0.25, 0.5, 0.75, 1] })],
      series: [{}, ...found.runs.map((r, i) => ({ stroke: colour("run-" + (i % 6)), width: 2.25, paths: stepped, points: { show: false } }))],
      hooks: { draw: [(u) => found.runs.forEach((r, i) => r.safe !== null && upright(u, r.safe, r.letter + " " + count(r.safe), { colour: colour("run-" + (i % 6)), dash: [5, 3], low: i % 8, before: true }))] },
    }, [found.x, ...found.runs.map((r) => r.coherent)]);
  };

  const strips = () => {
    const holder = document.getElementById("strips");
    if (!holder || !data.compared) return;
    const most = Math.max(1, ...data.compared.runs.map((r) => Math.max(r.longest, ...r.onsets)));
    holder.replaceChildren(...data.compared.runs.map((r, i) => {
      const at = (t) => ((1000 * t) / most).toFixed(1);
      const line = (x1, x2, y1, y2, width) => svg("line", { x1, x2, y1, y2, stroke: "currentColor", "stroke-width": width });
      const drawn = svg("svg", { viewBox: "0 0 1000 26", preserveAspectRatio: "none", role: "img", "aria-label": r.onsets.length + " onsets, longest answer " + count(r.longest) + " tokens" },
        line(0, at(r.longest), 13, 13, 1), ...r.onsets.map((o) => line(at(o), at(o), 3, 23, 1.5)));
      drawn.style.color = colour("run-" + (i % 6));
      return make("div", { class: "strip run-" + (i % 6) }, make("span", {}, make("span", { class: "letter", text: r.letter })), drawn);
    }), make("div", { class: "strip" }, make("span"), make("p", { class: "muted", text: "0 to " + count(most) + " tokens" })));
  };

  // Thresholds over time, one colour per model.
  const history = () => {
    document.querySelectorAll("[data-place]").forEach((holder) => {
      const points = data.history[Number(holder.dataset.place)].points;
      const names = [...new Set(points.map((p) => p.series))];
      const spread = points.length > 1 ? Math.max(3600, 0.06 * (points[points.length - 1].at - points[0].at)) : 86400;
      const top = Math.max(1, ...points.map((p) => p.tokens || 0)) * 1.25;
      holder.setAttribute("role", "img");
      const days = spread * 18 > 3 * 86400;
      const told = (at, what) => new Date(1000 * at).toLocaleString("en-GB", { timeZone: "UTC", ...what });
      const clock = (at) => told(at, { hour: "2-digit", minute: "2-digit" });
      const day = (at) => told(at, { day: "numeric", month: "short" });
      // The larger unit (year of days, day of hours) stands once, below the first tick and where it changes.
      const once = (of) => (at, i, all) => (i && of(at) === of(all[i - 1]) ? "" : "\n" + of(at));
      const [small, large] = days ? [day, once((at) => told(at, { year: "numeric" }))] : [clock, once(day)];
      const incrs = days ? [1, 2, 5, 7, 14, 28, 91, 182, 364].map((d) => d * 86400) : [1800, 3600, 7200, 10800, 21600, 43200, 86400];
      holder.setAttribute("aria-label", "Certified thresholds over time: " + points.map((p) => p.series + " " + count(p.tokens)).join(", "));
      place(holder, {
        height: 220,
        cursor: { show: false },
        tzDate: (at) => uPlot.tzDate(new Date(1000 * at), "Etc/UTC"),
        scales: { x: { range: [points[0].at - spread, points[points.length - 1].at + spread] }, y: { range: [0, top] } },
        axes: [axis({ grid: { show: false }, size: 40, space: 70, incrs, values: (u, s) => s.map((at, i) => small(at) + large(at, i, s)) }), axis({ size: 64, values: (u, s) => s.map(count) })],
        series: [{}, ...names.map((_, i) => ({ stroke: colour("run-" + (i % 6)), width: 2, spanGaps: true, points: { show: true, size: 8, fill: colour("run-" + (i % 6)) } }))],
        hooks: { draw: [(u) => {
          points.forEach((p, i) => {
            if (p.tokens === null) unsure(u, p.at, colour("run-" + (names.indexOf(p.series) % 6)));
            if (i === 0 || p.series !== points[i - 1].series) upright(u, p.at, p.label.slice(0, 40), { colour: colour("run-" + (names.indexOf(p.series) % 6)), width: 1, dash: [2, 3], line: names.indexOf(p.series) % 6 });
          });
        }] },
      }, [points.map((p) => p.at), ...names.map((name) => points.map((p) => (p.series === name ? p.tokens : null)))]);
    });
  };

  page.redraws.push(survival, depths, compared, strips, history);
  page.redraw();
})();
