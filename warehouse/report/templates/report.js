/* The report's behaviour: sums over the numbers inside the page, pictures by ECharts, tables by the DOM. Names that came as data
   reach the page as text nodes only, and tooltips through `escape`. What the states mean comes with the numbers. */
(async function () {
  'use strict';
  const byId = (id) => document.getElementById(id);
  const content = byId('content');
  let data;
  try {
    data = await unpack(byId('numbers-packed').textContent);
  } catch (error) {
    content.hidden = false;
    content.prepend(element('div', { class: 'notice' }, `This browser cannot open the numbers in this page (${error}). A newer one can.`));
    return;
  }
  const NO_TIME = 5e-10, MICRO = 1e6, TENTHOUSANDTH = 1e4, DAY_MS = 86400000;
  const SHOWN = 10, MOST_SERIES = 12, MOST_MAP_ROWS = 120;
  const firstMs = Date.parse(`${data.first}T00:00:00Z`);
  const lastDay = data.days - 1;
  const COLORS = {
    out_of_service: '#7d8894', unallocated: '#d9772b', borrowed: '#5b8db8', unobserved: '#aeb7c0', suspended: '#8f6fb5',
    overprovisioned: '#d6457f', unbalanced: '#7a9a2e', pipeline_waiting: '#e0a91b', reserved_memory: '#a3702c', idle_compute: '#c63f2e',
    throttled: '#8a5147', oversized: '#3f7fc1', underfilled: '#b58fd0', productive: '#1f9a83', commitment_unused: '#5a5f66',
  };
  const SERIES = ['#3f7fc1', '#d9772b', '#1f9a83', '#8f6fb5', '#c63f2e', '#e0a91b', '#5b8db8', '#d6457f', '#7a9a2e', '#a3702c', '#8a5147', '#b58fd0'];
  const REST = '#aeb7c0';
  const DIMENSIONS = [['cluster', 'Cluster'], ['team', 'Team'], ['workload', 'Workload'], ['state', 'State'], ['reason', 'Reason']];
  const BASES = [['allocation', 'allocated'], ['usage', 'used'], ['fully_loaded', 'fully loaded']];
  const CHARGED = ['team', 'application', 'model', 'workload'], MOST_CHARGED = 25;
  /* what figures are measured in: GPU-hours, one of the currencies by its place, or all of them in the reporting currency */
  const HOURS = -1, REPORTING = -2;

  async function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return JSON.parse(await new Response(stream).text());
  }

  /* words */
  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === 'onclick') made.addEventListener('click', value);
      else if (value !== null && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }
  const isolated = (name) => element('bdi', {}, name);
  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const dayText = (day) => new Date(firstMs + day * DAY_MS).toISOString().slice(0, 10);
  const dayOf = (text) => Math.round((Date.parse(`${text}T00:00:00Z`) - firstMs) / DAY_MS);
  const fixed = (number, digits) => number.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const percent = (ratio) => `${(ratio * 100).toFixed(1)}%`;
  const hoursText = (hours) => (hours !== 0 && Math.abs(hours) < 0.05 ? (hours > 0 ? '<0.05' : '−<0.05') : fixed(hours, 1));
  const compact = (number) => number.toLocaleString('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
  function signed(text, number) {
    return /[1-9]/.test(text) ? `${number < 0 ? '−' : '+'}${text}` : `±${text}`;
  }
  function unitPrice(price) {
    if (price === 0) return '0.00';
    return fixed(price, Math.min(Math.max(2, 3 - Math.floor(Math.log10(Math.abs(price)))), 6));
  }
  function daysText(from, to) {
    return from === to ? dayText(from) : `${dayText(from)} to ${dayText(to)}`;
  }

  /* amounts: hours, and money by currency that is never added, but in the reporting currency by what its exchange adds to it;
     hours without a price are told, and so are amounts without a rate */
  const amount = () => ({ hours: 0, unpriced: 0, costs: {}, reported: 0, converted: 0, unconverted: 0 });
  function add(to, hours, currency, cost, exchange) {
    to.hours += hours;
    if (currency < 0) { to.unpriced += hours; return; }
    to.costs[currency] = (to.costs[currency] || 0) + cost;
    if (exchange === null) to.unconverted += cost === 0 ? 0 : 1;
    else { to.reported += cost + exchange; to.converted += 1; }
  }
  function addAll(to, one) {
    for (const name of ['hours', 'unpriced', 'reported', 'converted', 'unconverted']) to[name] += one[name];
    for (const [currency, cost] of Object.entries(one.costs)) to.costs[currency] = (to.costs[currency] || 0) + cost;
    return to;
  }
  const parts = (one, scale) => ({
    ...one, hours: one.hours / scale, unpriced: one.unpriced / scale, reported: one.reported / scale,
    costs: Object.fromEntries(Object.entries(one.costs).map(([currency, cost]) => [currency, cost / scale])),
  });
  const exchangeOf = (cells, i) => (data.reporting ? cells.exchange[i] : null);
  function moneyText(one) {
    if (view.measure === REPORTING) {
      const isPart = one.unpriced > NO_TIME || one.unconverted > 0;
      if (!one.converted) return one.unconverted ? 'no rate' : isPart ? 'no price' : '–';
      return `${fixed(one.reported, 2)} ${data.reporting}${isPart ? ' + ?' : ''}`;
    }
    const known = Object.entries(one.costs).map(([currency, cost]) => [data.currencies[currency], cost]).sort()
      .map(([currency, cost]) => `${fixed(cost, 2)} ${currency}`).join(' + ');
    if (one.unpriced > NO_TIME) return known ? `${known} + ?` : 'no price';
    return known || '–';
  }
  const isByMoney = (whole) => whole.unpriced <= NO_TIME && (view.measure === REPORTING ? whole.converted > 0 && !whole.unconverted : Object.keys(whole.costs).length === 1);
  const moneyOf = (one) => (view.measure === REPORTING ? one.reported : Object.values(one.costs)[0] || 0);
  const measured = (one) => (view.measure === HOURS ? one.hours : view.measure === REPORTING ? one.reported : one.costs[view.measure] || 0);
  const measureName = () => (view.measure === HOURS ? 'GPU-hours' : view.measure === REPORTING ? data.reporting : data.currencies[view.measure]);
  const measuredText = (value) => `${view.measure === HOURS ? hoursText(value) : fixed(value, 2)} ${measureName()}`;

  /* what is looked at: kept in the address, so that a link leads to the same figures */
  const presets = [['last day', 1], ['7 days', 7], ['28 days', 28], ['all days', 0]].filter(([, days], place) => place === 0 || days === 0 || days < data.days);
  const view = { from: 0, to: lastDay, cluster: -1, measure: HOURS, by: 'state', basis: 'allocation', charged: 'team', month: '', theme: '', filters: {}, all: false, allCharged: false };
  function lastDays(days) {
    const to = data.last_whole_day;
    return days === 0 ? [0, lastDay] : [Math.max(0, to - days + 1), to];
  }
  function readAddress() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const inside = (text) => { const day = dayOf(text); return Number.isFinite(day) ? Math.min(Math.max(day, 0), lastDay) : null; };
    [view.from, view.to] = lastDays(7);
    if (asked.get('from') !== null) view.from = inside(asked.get('from')) ?? view.from;
    if (asked.get('to') !== null) view.to = inside(asked.get('to')) ?? view.to;
    if (view.from > view.to) [view.from, view.to] = [view.to, view.from];
    view.cluster = data.clusters.indexOf(asked.get('cluster'));
    view.measure = data.reporting && asked.get('measure') === 'reporting' ? REPORTING : data.currencies.indexOf(asked.get('measure'));
    if (BASES.some(([name]) => name === asked.get('basis'))) view.basis = asked.get('basis');
    if (CHARGED.includes(asked.get('charged'))) view.charged = asked.get('charged');
    view.month = asked.get('month') || '';
    if (DIMENSIONS.some(([name]) => name === asked.get('by'))) view.by = asked.get('by');
    if (['light', 'dark'].includes(asked.get('theme'))) view.theme = asked.get('theme');
  }
  function writeAddress() {
    const said = new URLSearchParams({ from: dayText(view.from), to: dayText(view.to) });
    if (view.cluster >= 0) said.set('cluster', data.clusters[view.cluster]);
    if (view.measure !== HOURS) said.set('measure', view.measure === REPORTING ? 'reporting' : data.currencies[view.measure]);
    if (view.by !== 'state') said.set('by', view.by);
    if (view.basis !== 'allocation') said.set('basis', view.basis);
    if (view.charged !== 'team') said.set('charged', view.charged);
    if (view.month) said.set('month', view.month);
    if (view.theme) said.set('theme', view.theme);
    try { history.replaceState(null, '', `#${said}`); } catch (error) { /* some viewers forbid it */ }
  }

  /* sums */
  function fleetSums(from, to) {
    const sums = data.states.map(amount);
    const cells = data.fleet;
    for (let i = 0; i < cells.day.length; i++) {
      if (cells.day[i] < from || cells.day[i] > to || (view.cluster >= 0 && cells.cluster[i] !== view.cluster)) continue;
      add(sums[cells.state[i]], cells.hours[i], cells.currency[i], cells.cost[i], exchangeOf(cells, i));
    }
    return sums.map((one) => parts(one, MICRO));
  }
  function together(sums, flag) {
    const total = amount();
    sums.forEach((one, state) => {
      if (!flag || data.states[state][flag]) addAll(total, one);
    });
    return total;
  }
  function netOf(sums) {
    const base = together(sums, 'is_in_service').hours, held = together(sums, 'is_held').hours;
    const unobserved = together(sums, 'is_unobserved').hours, productive = together(sums, 'is_productive').hours;
    if (base <= NO_TIME) return null;
    const coverage = held > NO_TIME ? 1 - unobserved / held : null;
    const isSure = coverage === null || Math.round(coverage * 1e9) / 1e9 >= data.coverage_floor;
    return { base, held, productive, low: productive / base, high: (productive + unobserved) / base, coverage, isSure };
  }
  const netText = (net) => (net === null ? '–' : net.isSure ? percent(net.low) : `${percent(net.low)} to ${percent(net.high)}`);
  function netByDay() {
    const sums = Array.from({ length: data.days }, () => data.states.map(() => 0));
    const cells = data.fleet;
    for (let i = 0; i < cells.day.length; i++) {
      if (view.cluster >= 0 && cells.cluster[i] !== view.cluster) continue;
      sums[cells.day[i]][cells.state[i]] += cells.hours[i];
    }
    return sums.map((states) => netOf(states.map((hours) => ({ ...amount(), hours: hours / MICRO }))));
  }
  const bucketsIn = () => data.buckets.map(([start, end], place) => [place, start, end]).filter(([, start, end]) => end >= view.from && start <= view.to);
  function holderCells(visit) {
    const cells = data.holders, inside = new Set(bucketsIn().map(([place]) => place)), filters = view.filters;
    for (let i = 0; i < cells.bucket.length; i++) {
      if (!inside.has(cells.bucket[i])) continue;
      const holder = data.workloads[cells.workload[i]];
      if (view.cluster >= 0 && holder.cluster !== view.cluster) continue;
      const at = { cluster: holder.cluster, team: holder.team, workload: cells.workload[i], state: cells.state[i], reason: cells.reason[i] };
      if (Object.entries(filters).some(([name, wanted]) => at[name] !== wanted)) continue;
      visit(at, cells.bucket[i], [cells.hours[i], cells.currency[i], cells.cost[i], exchangeOf(cells, i)], data.states[cells.state[i]].is_ghost);
    }
  }
  function nameOf(dimension, place) {
    if (dimension === 'cluster') return data.clusters[place];
    if (dimension === 'team') return data.teams[place];
    if (dimension === 'state') return data.states[place].label;
    if (dimension === 'reason') return data.reasons[place];
    return data.workloads[place].name;
  }

  function whereOf(holder) {
    const cluster = data.clusters[holder.cluster], team = data.teams[holder.team];
    return [cluster === 'unallocated' ? null : cluster, ['unallocated', 'unknown'].includes(team) ? null : `team ${team}`].filter(Boolean).join(', ');
  }

  /* pictures */
  const charts = {};
  let inks = {};
  function readInks() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ['ink', 'soft', 'line', 'sheet', 'accent', 'bad']) inks[name] = style.getPropertyValue(`--${name}`).trim();
  }
  function draw(id, said, option, onClick, renderer) {
    const place = byId(id);
    if (charts[id]) charts[id].dispose();
    const chart = echarts.init(place, null, { renderer: renderer || 'svg' });
    charts[id] = chart;
    place.setAttribute('role', 'img');
    place.setAttribute('aria-label', said);
    chart.setOption({
      animation: false, textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: inks.ink }, color: SERIES,
      ...option,
      tooltip: { confine: true, backgroundColor: inks.sheet, borderColor: inks.line, textStyle: { color: inks.ink, fontSize: 12 }, ...option.tooltip },
    });
    if (onClick) chart.on('click', onClick);
  }
  const axis = (more) => ({ axisLine: { lineStyle: { color: inks.line } }, axisTick: { show: false }, axisLabel: { color: inks.soft, hideOverlap: true }, splitLine: { lineStyle: { color: inks.line } }, ...more });
  const legend = () => ({ type: 'scroll', bottom: 0, textStyle: { color: inks.soft }, pageTextStyle: { color: inks.soft }, pageIconColor: inks.accent, formatter: shortName, itemWidth: 14 });
  const shortName = (name) => (name.length > 28 ? `${name.slice(0, 27)}…` : name);
  const empty = (id, said) => { if (charts[id]) { charts[id].dispose(); delete charts[id]; } byId(id).replaceChildren(element('p', { class: 'empty' }, said)); };
  const tipRows = (title, rows) => `<b>${escape(title)}</b>${rows.map(([mark, name, value]) => `<br>${mark || ''}${escape(name)} <b>${escape(value)}</b>`).join('')}`;

  function table(id, caption, heads, rows) {
    const head = element('tr', {}, ...heads.map(([name, kind]) => element('th', { scope: 'col', class: kind }, name)));
    const body = rows.map((cells) => {
      const row = element('tr', { class: cells.class });
      cells.cells.forEach((cell, place) => row.append(element('td', { class: heads[place][1] }, ...(Array.isArray(cell) ? cell : [cell]))));
      return row;
    });
    byId(id).replaceChildren(element('table', {}, caption ? element('caption', {}, caption) : null, element('thead', {}, head), element('tbody', {}, ...body)));
  }
  const mark = (color) => { const made = element('span', { class: 'mark', 'aria-hidden': 'true' }); made.style.background = color; return made; };

  function showNet() {
    const sums = fleetSums(view.from, view.to), net = netOf(sums), length = view.to - view.from + 1;
    const before = view.from - length >= 0 ? netOf(fleetSums(view.from - length, view.from - 1)) : null;
    const ghost = together(sums, 'is_ghost'), whole = together(sums), capacity = together(sums, 'is_capacity');
    const rates = view.measure !== REPORTING ? '' : `; money in ${data.reporting} at each day's rate${whole.unconverted ? ', ? where a day has none' : ''}`;
    byId('net-says').textContent = `${daysText(view.from, view.to)}${view.cluster >= 0 ? `, cluster ${data.clusters[view.cluster]}` : ', all clusters'}${rates}`;
    const figures = [
      ['main', netText(net), 'GPU Net: productive share of the capacity in service'],
      ['', moneyText(ghost), `ghost cost, ${hoursText(ghost.hours)} GPU-hours`],
      ['', `${hoursText(capacity.hours)}`, 'GPU-hours of capacity'],
      ['', moneyText(whole), 'cost of it, unused commitments included'],
      ['', net && net.coverage !== null ? percent(net.coverage) : '–', 'of the time held was observed'],
    ];
    if (net && before && net.isSure && before.isSure) {
      const change = (net.low - before.low) * 100;
      figures[0][2] += `; ${signed(Math.abs(change).toFixed(1), change)} points on the ${length === 1 ? 'day' : `${length} days`} before (${netText(before)})`;
    } else if (before) figures[0][2] += `; the ${length === 1 ? 'day' : `${length} days`} before: ${netText(before)}`;
    byId('numbers').replaceChildren(...figures.map(([kind, figure, says]) => element('div', {}, element('div', { class: `figure ${kind}` }, figure), element('div', { class: 'soft' }, says))));
    if (net && !net.isSure) byId('numbers').append(element('p', { class: 'notice' }, 'Too little was observed for one number: the interval counts the time that no sample covers as not productive, and as productive.'));
    const nets = netByDay();
    if (nets.every((one) => one === null)) return empty('net-chart', 'No GPU was in inventory.');
    const dates = nets.map((_, day) => dayText(day));
    draw('net-chart', `GPU Net by day: ${nets.map((one, day) => (day < view.from || day > view.to ? null : `${dates[day]} ${netText(one)}`)).filter(Boolean).slice(-14).join(', ')}`, {
      grid: { left: 44, right: 16, top: 12, bottom: data.days > 60 ? 64 : 28 },
      dataZoom: data.days > 60 ? [{ type: 'slider', bottom: 4, height: 24, textStyle: { color: inks.soft }, startValue: Math.max(0, view.from - 60), endValue: Math.min(lastDay, Math.max(view.to, view.from + 30)) }] : [],
      xAxis: axis({ type: 'category', data: dates, axisLabel: { color: inks.soft, hideOverlap: true, formatter: (text) => text.slice(5) }, splitLine: { show: false } }),
      yAxis: axis({ type: 'value', min: 0, axisLabel: { color: inks.soft, formatter: (value) => `${Math.round(value * 100)}%` } }),
      tooltip: { trigger: 'axis', formatter: (points) => { const one = nets[points[0].dataIndex]; return tipRows(dates[points[0].dataIndex], [['', 'GPU Net', netText(one)], ['', 'observed', one && one.coverage !== null ? percent(one.coverage) : '–']]); } },
      series: [
        { type: 'line', stack: 'band', symbol: 'none', silent: true, lineStyle: { opacity: 0 }, data: nets.map((one) => (one ? one.low : null)) },
        { type: 'line', stack: 'band', symbol: 'none', silent: true, lineStyle: { opacity: 0 }, areaStyle: { color: inks.soft, opacity: 0.35 }, data: nets.map((one) => (one ? one.high - one.low : null)) },
        { type: 'line', symbol: data.days > 60 ? 'none' : 'circle', symbolSize: 7, lineStyle: { color: inks.accent, width: 2 }, itemStyle: { color: inks.accent }, data: nets.map((one) => (one ? one.low : null)),
          markArea: { silent: true, itemStyle: { color: inks.accent, opacity: 0.1 }, data: view.from === view.to ? [] : [[{ xAxis: dates[view.from] }, { xAxis: dates[view.to] }]] } },
      ],
    }, null);
    charts['net-chart'].getZr().on('click', (event) => {
      const point = charts['net-chart'].convertFromPixel({ gridIndex: 0 }, [event.offsetX, event.offsetY]);
      if (point && point[0] >= 0 && point[0] <= lastDay && charts['net-chart'].containPixel({ gridIndex: 0 }, [event.offsetX, event.offsetY])) choose({ from: point[0], to: point[0] });
    });
  }

  function showWaterfall() {
    const sums = fleetSums(view.from, view.to), whole = together(sums);
    const capacity = together(sums, 'is_capacity').hours;
    const kept = data.states.map((state, place) => ({ ...state, place, sum: sums[place] }))
      .filter((one) => one.is_productive || one.sum.hours > NO_TIME || Object.values(one.sum.costs).some((cost) => cost !== 0));
    byId('waterfall-says').textContent = `${daysText(view.from, view.to)}, in ${measureName()}; the steps add up to the whole.`;
    table('waterfall-table', null, [['state', ''], ['GPU-hours', 'n'], ['share', 'n wide'], ['money', 'n free']], [
      { class: 'sum', cells: ['Capacity', hoursText(whole.hours), '', moneyText(whole)] },
      ...kept.map((one) => ({ cells: [[mark(COLORS[one.state] || REST), one.label], one.is_capacity ? hoursText(one.sum.hours) : '', capacity && one.is_capacity ? percent(one.sum.hours / capacity) : '', moneyText(one.sum)] })),
    ]);
    if (whole.hours <= NO_TIME && !Object.keys(whole.costs).length) return empty('waterfall-chart', 'No GPU was in inventory on these days.');
    let offset = measured(whole);
    const bars = kept.map((one) => { const value = measured(one.sum); offset -= value; return { ...one, value, offset: Math.max(offset, 0) }; });
    const names = ['Capacity', ...bars.map((bar) => bar.label)], narrow = innerWidth < 600;
    byId('waterfall-chart').style.height = `${names.length * 32 + 36}px`;
    draw('waterfall-chart', `Of ${measuredText(measured(whole))}: ${bars.map((bar) => `${bar.label} ${measuredText(bar.value)}`).join('; ')}`, {
      grid: { left: narrow ? 108 : 124, right: narrow ? 52 : 64, top: 4, bottom: 24 },
      xAxis: axis({ type: 'value', axisLabel: { color: inks.soft, formatter: compact, hideOverlap: true }, splitNumber: narrow ? 3 : 5 }),
      yAxis: axis({ type: 'category', inverse: true, data: names, axisLabel: { color: inks.ink, width: narrow ? 100 : 116, overflow: 'truncate', interval: 0, fontSize: 12 } }),
      tooltip: { trigger: 'item', formatter: (point) => tipRows(names[point.dataIndex], [['', '', measuredText(point.value)]]) },
      series: [
        { type: 'bar', stack: 'all', silent: true, itemStyle: { color: 'transparent' }, tooltip: { show: false }, data: [0, ...bars.map((bar) => bar.offset)] },
        { type: 'bar', stack: 'all', barCategoryGap: '25%', label: { show: true, position: 'right', color: inks.soft, fontSize: 11, formatter: (point) => compact(point.value) },
          data: [{ value: measured(whole), itemStyle: { color: inks.soft } }, ...bars.map((bar) => ({ value: bar.value, itemStyle: { color: COLORS[bar.state] || REST } }))] },
      ],
    }, (point) => { const bar = bars[point.dataIndex - 1]; if (bar && bar.is_ghost) { view.filters.state = bar.place; view.by = 'workload'; refresh(); byId('ghosts').scrollIntoView(); } });
  }

  function showGhosts() {
    byId('by').replaceChildren(...DIMENSIONS.map(([name, label]) => element('button', { type: 'button', 'aria-pressed': String(view.by === name), onclick: () => choose({ by: name }) }, `by ${label.toLowerCase()}`)));
    byId('filters').replaceChildren(...Object.entries(view.filters).map(([name, place]) => element('button', { type: 'button', class: 'chip', 'aria-label': `remove ${name} ${nameOf(name, place)}`, onclick: () => { delete view.filters[name]; refresh(); } }, `${name}: `, isolated(nameOf(name, place)), ' ✕')));
    const inside = bucketsIn();
    const groups = new Map();
    holderCells((at, bucket, cell, isGhost) => {
      const place = at[view.by];
      if (!groups.has(place)) groups.set(place, { place, at, held: amount(), ghost: amount(), byBucket: new Map() });
      const group = groups.get(place);
      add(group.held, ...cell);
      if (!isGhost) return;
      add(group.ghost, ...cell);
      if (!group.byBucket.has(bucket)) group.byBucket.set(bucket, amount());
      add(group.byBucket.get(bucket), ...cell);
    });
    const found = [...groups.values()].map((group) => ({ ...group, held: parts(group.held, TENTHOUSANDTH), ghost: parts(group.ghost, TENTHOUSANDTH) }))
      .filter((group) => group.ghost.hours > NO_TIME || Object.keys(group.ghost.costs).length)
      .sort((a, b) => measured(b.ghost) - measured(a.ghost) || b.ghost.hours - a.ghost.hours);
    const isCoarse = inside.some(([, start, end]) => end > start);
    const first = inside.length ? inside[0][1] : view.from, last = inside.length ? inside[inside.length - 1][2] : view.to;
    byId('ghosts-says').textContent = `${daysText(first, last)}${isCoarse ? '; the older days are kept by week or month here, shown as a mean day' : ''}${first < view.from || last > view.to ? ', whole weeks or months around the days chosen' : ''}.`;
    if (!found.length) { empty('ghosts-chart', 'No ghost capacity here.'); byId('ghosts-table').replaceChildren(); return; }
    const shown = found.slice(0, MOST_SERIES), rest = found.slice(MOST_SERIES);
    const color = (group, place) => (view.by === 'state' ? COLORS[data.states[group.place].state] || REST : SERIES[place % SERIES.length]);
    const heights = (several) => inside.map(([bucket, start, end]) => several.reduce((sum, group) => { const one = group.byBucket.get(bucket); return sum + (one ? measured(parts(one, TENTHOUSANDTH)) : 0); }, 0) / (end - start + 1));
    const labels = inside.map(([, start]) => dayText(start));
    const series = shown.map((group, place) => ({ name: `${labelOf(group)}`, color: color(group, place), data: heights([group]) }));
    if (rest.length) series.push({ name: `${rest.length} others`, color: REST, data: heights(rest) });
    draw('ghosts-chart', `Ghost capacity by day and ${view.by}, in ${measureName()}: ${shown.slice(0, 5).map((group) => `${nameOf(view.by, group.place)} ${measuredText(measured(group.ghost))}`).join('; ')}`, {
      grid: { left: 56, right: 12, top: 28, bottom: 64 }, legend: { ...legend(), data: series.map((one) => one.name) },
      xAxis: axis({ type: 'category', data: labels, axisLabel: { color: inks.soft, hideOverlap: true, formatter: (text) => text.slice(5) }, splitLine: { show: false } }),
      yAxis: axis({ type: 'value', name: `${measureName()} a day`, nameTextStyle: { color: inks.soft, align: 'left' }, axisLabel: { color: inks.soft, formatter: compact } }),
      tooltip: { trigger: 'item', formatter: (point) => tipRows(`${labels[point.dataIndex]}${isCoarse ? ' (mean day)' : ''}`, [[point.marker, point.seriesName, measuredText(point.value)]]) },
      series: series.map((one) => ({ type: 'bar', stack: 'ghosts', name: one.name, itemStyle: { color: one.color }, data: one.data, barMaxWidth: 48 })),
    }, (point) => { const group = shown[point.seriesIndex]; if (group) lookInside(group); });
    const most = Math.max(...found.map((group) => measured(group.ghost)), NO_TIME);
    const total = found.reduce((sum, group) => sum + measured(group.ghost), 0);
    const isWho = ['cluster', 'team', 'workload'].includes(view.by);
    const heads = [[view.by, ''], ['ghost GPU-hours', 'n'], isWho ? ['of its time', 'n wide'] : ['share of ghosts', 'n wide'], ['ghost cost', 'n free']];
    const rows = found.slice(0, view.all ? found.length : 25).map((group, place) => {
      const bar = element('span', { class: 'bar', 'aria-hidden': 'true' });
      bar.style.width = `${Math.max(0, (100 * measured(group.ghost)) / most)}%`;
      const button = element('button', { type: 'button', class: 'link', onclick: () => lookInside(group) }, isolated(nameOf(view.by, group.place)));
      const where = view.by === 'workload' ? element('span', { class: 'soft' }, ' · ', isolated(whereOf(data.workloads[group.place]))) : null;
      const share = isWho ? group.held.hours > NO_TIME && percent(group.ghost.hours / group.held.hours) : total > 0 && percent(measured(group.ghost) / total);
      return { cells: [[mark(place < MOST_SERIES ? color(group, place) : REST), button, where, bar], hoursText(group.ghost.hours), share || '–', moneyText(group.ghost)] };
    });
    table('ghosts-table', null, heads, rows);
    if (found.length > rows.length) byId('ghosts-table').append(element('p', {}, element('button', { type: 'button', onclick: () => choose({ all: true }) }, `show all ${found.length}`)));
  }
  function labelOf(group) {
    const name = nameOf(view.by, group.place);
    return view.by === 'workload' ? `${name} (${data.clusters[group.at.cluster]}${data.workloads.filter((one) => one.name === name && one.cluster === group.at.cluster).length > 1 ? `, ${group.place}` : ''})` : name;
  }
  function lookInside(group) {
    view.filters[view.by] = group.place;
    const order = ['cluster', 'team', 'workload', 'state', 'reason'].filter((name) => !(name in view.filters));
    const next = { cluster: ['team', 'workload'], team: ['workload', 'state'], workload: ['state', 'reason'], state: ['workload', 'reason', 'team'], reason: ['workload', 'state'] }[view.by].find((name) => order.includes(name));
    choose({ by: next || view.by, all: false });
  }

  function showActions() {
    const ghosts = new Map(), whole = together(fleetSums(view.from, view.to));
    holderCells((at, bucket, cell, isGhost) => {
      if (!isGhost) return;
      const key = `${at.workload}:${at.state}:${at.reason}`;
      if (!ghosts.has(key)) ghosts.set(key, { at, sum: amount() });
      add(ghosts.get(key).sum, ...cell);
    });
    const byMoney = isByMoney(whole);
    const size = (one) => (byMoney ? moneyOf(one) : one.hours);
    const found = [...ghosts.values()].map((ghost) => ({ at: ghost.at, sum: parts(ghost.sum, TENTHOUSANDTH) })).sort((a, b) => size(b.sum) - size(a.sum) || b.sum.hours - a.sum.hours);
    const filtered = Object.keys(view.filters).length ? ', of what is chosen above' : '';
    byId('actions-says').textContent = `${daysText(view.from, view.to)}${filtered}, ${byMoney ? 'by money' : 'by GPU-hours'}${found.length > SHOWN ? `, ${SHOWN} of ${found.length}` : ''}`;
    if (!found.length) { byId('actions-table').replaceChildren(element('p', { class: 'empty' }, 'No ghost capacity here.')); return; }
    table('actions-table', null, [['what', ''], ['GPU-hours', 'n'], ['money', 'n free']], found.slice(0, SHOWN).map(({ at, sum }) => {
      const holder = data.workloads[at.workload], state = data.states[at.state], reason = data.reasons[at.reason];
      const advice = data.remedies[`${at.state}:${at.reason}`];
      return { cells: [[element('b', {}, isolated(holder.name)), element('span', { class: 'soft' }, ' · ', isolated(whereOf(holder))), element('br'), `${state.label}${reason && reason !== '–' ? `: ${reason}` : ''}`, advice ? element('span', { class: 'advice' }, advice) : null], state.is_capacity ? hoursText(sum.hours) : '', moneyText(sum)] };
    }));
  }

  function showMap() {
    const map = data.map, isHour = map.unit === 'hour', start = Date.parse(`${map.start}T00:00:00Z`);
    const step = (place) => { const at = new Date(start + place * (isHour ? 3600000 : DAY_MS)).toISOString(); return isHour ? `${at.slice(5, 10)} ${at.slice(11, 16)}` : at.slice(0, 10); };
    const inside = map.devices.map((device, place) => place).filter((place) => view.cluster < 0 || map.devices[place].cluster === view.cluster);
    const mean = (place) => { const there = map.shares[place].filter((share) => share >= 0); return there.reduce((sum, share) => sum + share, 0) / (there.length || 1); };
    const worst = [...inside].sort((a, b) => mean(b) - mean(a));
    const rows = inside.length > MOST_MAP_ROWS ? worst.slice(0, MOST_MAP_ROWS) : inside;
    byId('map-says').textContent = `Share of each ${isHour ? "GPU's hours" : "node's days"} that was ghost capacity, ${isHour ? 'the last seven days' : `the last ${map.count} days`} published, whatever days are chosen above. Grey was out of service.${rows.length < inside.length ? ` The ${rows.length} of ${inside.length} with the most.` : ''}`;
    if (!rows.length) return empty('map-chart', 'No GPU is known here.');
    const names = rows.map((row) => `${map.devices[row].name} · ${data.clusters[map.devices[row].cluster]}`);
    const cells = [];
    rows.forEach((row, y) => map.shares[row].forEach((share, x) => {
      if (share === -1) return;
      cells.push(share === -2 ? { value: [x, y, 0], row, visualMap: false, itemStyle: { color: '#7d8894' } } : { value: [x, y, share], row });
    }));
    const height = Math.min(Math.max(rows.length * 11, 120), 2400), narrow = innerWidth < 600;
    byId('map-chart').style.height = `${height + 90}px`;

    draw('map-chart', `Idle map of ${rows.length} ${isHour ? 'GPUs by hour' : 'nodes by day'}; most ghost capacity: ${worst.slice(0, 5).map((place) => `${map.devices[place].name} ${mean(place).toFixed(0)}%`).join(', ')}`, {
      grid: { left: narrow ? 84 : 140, right: 8, top: 8, bottom: 76 },
      xAxis: axis({ type: 'category', data: Array.from({ length: map.count }, (_, place) => step(place)), axisLabel: { color: inks.soft, hideOverlap: true, formatter: (text) => (isHour ? text.slice(0, 5) : text.slice(5)), interval: isHour ? (place) => place % 24 === 0 : 'auto' }, splitLine: { show: false } }),
      yAxis: axis({ type: 'category', inverse: true, data: names, axisLabel: { color: inks.soft, fontSize: 10, width: narrow ? 78 : 132, overflow: 'truncate', hideOverlap: true }, splitLine: { show: false } }),
      visualMap: { min: 0, max: 100, calculable: false, orient: 'horizontal', left: 'center', bottom: 4, itemWidth: 12, itemHeight: 140, text: ['100% ghost', '0%'], textStyle: { color: inks.soft }, inRange: { color: ['#1f9a83', '#e8d9a0', '#d9772b', '#a8321f'] } },
      tooltip: { formatter: (point) => { const [x, y] = point.value, share = map.shares[rows[y]][x]; return tipRows(names[y], [['', step(x), share === -2 ? 'out of service' : `${share}% ghost`], ['', 'mostly', data.states[map.states[rows[y]][x]].label]]); } },
      series: [{ type: 'heatmap', data: cells, itemStyle: { borderWidth: 0 }, emphasis: { itemStyle: { borderColor: inks.ink, borderWidth: 1 } } }],
    }, null, 'canvas');
  }

  function showUnits() {
    const rows = data.economics.rows, services = data.economics.services;
    const of = services.map(() => ({ tokens: 0, requests: 0, hours: 0, priced: 0, cost: 0, pricedRequests: 0, requestCost: 0, listed: 0, listCost: 0, reason: '', byDay: new Map() }));
    for (let i = 0; i < rows.day.length; i++) {
      const one = of[rows.service[i]];
      if (rows.per_million[i] !== null) one.byDay.set(rows.day[i], rows.per_million[i] / MICRO);
      if (rows.day[i] < view.from || rows.day[i] > view.to) continue;
      one.tokens += rows.tokens[i]; one.requests += rows.requests[i]; one.hours += rows.hours[i] / TENTHOUSANDTH;
      if (rows.per_million[i] !== null) { one.priced += rows.tokens[i]; one.cost += (rows.per_million[i] / MICRO) * rows.tokens[i]; }
      else one.reason = data.economics.reasons[rows.reason[i]];
      if (rows.per_thousand[i] !== null) { one.pricedRequests += rows.requests[i]; one.requestCost += (rows.per_thousand[i] / MICRO) * rows.requests[i]; }
      if (rows.list_per_million[i] !== null) { one.listed += rows.tokens[i]; one.listCost += (rows.list_per_million[i] / MICRO) * rows.tokens[i]; }
    }
    const shown = services.map((service, place) => ({ ...service, ...of[place] })).filter((one) => (view.cluster < 0 || one.cluster === view.cluster) && (one.hours > 0 || one.tokens > 0 || one.byDay.size))
      .sort((a, b) => b.tokens - a.tokens);
    byId('units-says').textContent = `Prompt and output tokens; cost of the time held. The table is of ${daysText(view.from, view.to)}.${data.economics.since > 0 ? ` Kept from ${dayText(data.economics.since)}.` : ''}`;
    if (!shown.length) { empty('units-chart', 'No service is known here.'); byId('units-table').replaceChildren(); return; }
    const drawn = shown.filter((one) => one.byDay.size).slice(0, MOST_SERIES), days = Array.from({ length: data.days }, (_, day) => day).filter((day) => day >= data.economics.since);
    const several = new Set(drawn.map((one) => one.currency)).size > 1;
    const name = (one) => `${one.model} (${one.workload}${several ? `, ${one.currency}` : ''})`;
    if (!drawn.length) empty('units-chart', 'No day has a price for a token.');
    else {
      const prices = drawn.flatMap((one) => [...one.byDay.values()]).filter((price) => price > 0);
      const isWide = prices.length && Math.max(...prices) / Math.min(...prices) > 20;
      draw('units-chart', `Cost per million tokens by day: ${drawn.map((one) => `${name(one)} ${one.priced ? unitPrice(one.cost / one.priced) : '–'} ${one.currency}`).join('; ')}`, {
        grid: { left: 52, right: 16, top: 28, bottom: 64 }, legend: { ...legend(), data: drawn.map(name) },
        xAxis: axis({ type: 'category', data: days.map(dayText), axisLabel: { color: inks.soft, hideOverlap: true, formatter: (text) => text.slice(5) }, splitLine: { show: false } }),
        yAxis: axis({ type: isWide ? 'log' : 'value', name: `${several ? 'per million' : `${drawn[0].currency} per million`}${isWide ? ', log scale' : ''}`, nameTextStyle: { color: inks.soft, align: 'left' }, axisLabel: { color: inks.soft, formatter: (value) => String(Number(value.toPrecision(3))) } }),
        tooltip: { trigger: 'item', formatter: (point) => tipRows(point.name, [[point.marker, point.seriesName, `${unitPrice(point.value)} ${drawn[point.seriesIndex].currency}`]]) },
        series: drawn.map((one) => ({ type: 'line', name: name(one), symbolSize: 6, symbol: data.days > 60 ? 'none' : 'circle', data: days.map((day) => one.byDay.get(day) ?? null) })),
      });
    }
    table('units-table', null, [['model', ''], ['million tokens', 'n wide'], ['requests', 'n wide'], ['GPU-hours held', 'n wide'], ['per million tokens', 'n free'], ['per 1,000 requests', 'n free wide']], shown.filter((one) => one.hours > 0 || one.tokens > 0).map((one) => ({
      cells: [
        [element('b', {}, isolated(one.model)), element('span', { class: 'soft' }, ' · ', isolated(one.workload), ', ', isolated(data.clusters[one.cluster]))],
        fixed(one.tokens / 1e6, 2), fixed(one.requests, 0), hoursText(one.hours),
        [one.priced ? `${unitPrice(one.cost / one.priced)} ${one.currency}` : `– (${one.reason || 'no tokens'})`, one.listed ? element('span', { class: 'soft' }, element('br'), `list price ${unitPrice(one.listCost / one.listed)} (${one.list})`) : null],
        one.pricedRequests ? `${unitPrice(one.requestCost / one.pricedRequests)} ${one.currency}` : '–',
      ],
    })));
  }

  /* the chargeback: by month, in one currency or in that of reports; what has no price, or no rate, is told */
  const charge = () => ({ hours: 0, allocation: 0, usage: 0, fully_loaded: 0, unknown: new Set() });
  function chargeOf(cells, i, sum) {
    sum.hours += cells.hours[i] / TENTHOUSANDTH;
    for (const [basis] of BASES) {
      const isPriced = cells.currency[i] >= 0, exchange = isPriced && view.measure === REPORTING ? cells[`${basis}_exchange`][i] : 0;
      if (isPriced && exchange !== null) sum[basis] += (cells[basis][i] + exchange) / MICRO;
      else if (isPriced ? cells[basis][i] !== 0 : cells.hours[i] > 0) sum.unknown.add(basis);
    }
  }
  function charges(cells, key) {
    const currency = view.measure >= 0 ? view.measure : 0, sums = new Map();
    for (let i = 0; i < cells.month.length; i++) {
      if (cells.currency[i] >= 0 && view.measure !== REPORTING && cells.currency[i] !== currency) continue;
      if (!sums.has(cells[key][i])) sums.set(cells[key][i], new Map());
      const byMonth = sums.get(cells[key][i]);
      if (!byMonth.has(cells.month[i])) byMonth.set(cells.month[i], charge());
      chargeOf(cells, i, byMonth.get(cells.month[i]));
    }
    return [...sums];
  }
  function addCharges(several) {
    const sum = charge();
    for (const one of several) {
      for (const name of ['hours', ...BASES.map(([basis]) => basis)]) sum[name] += one[name];
      one.unknown.forEach((basis) => sum.unknown.add(basis));
    }
    return sum;
  }
  function showTeams() {
    const all = data.chargeback, choice = all.choices[view.charged], basis = view.basis;
    const months = [...new Set([...choice.rows.month, ...all.lines.month])].sort(), month = months.includes(view.month) ? view.month : months[months.length - 1];
    const press = (label, isPressed, change) => element('button', { type: 'button', 'aria-pressed': String(isPressed), onclick: () => choose(change) }, label);
    byId('charged').replaceChildren(...CHARGED.map((name) => press(`by ${name}`, view.charged === name, { charged: name, allCharged: false })));
    byId('basis').replaceChildren(...BASES.map(([name, label]) => press(label, basis === name, { basis: name })));
    byId('month').replaceChildren(...[...months].reverse().map((name) => element('option', { value: name }, name)));
    byId('month').value = month || '';
    if (!months.length || !data.currencies.length) { empty('teams-chart', 'No priced time, and no bill.'); byId('teams-table').replaceChildren(); return; }
    const code = view.measure === REPORTING ? data.reporting : data.currencies[view.measure >= 0 ? view.measure : 0];
    const of = (one, at) => one.byMonth.get(at) || charge(), isThere = (one) => Math.abs(of(one, month).hours) > NO_TIME || of(one, month).unknown.size || BASES.some(([name]) => of(one, month)[name] !== 0);
    const named = charges(choice.rows, 'member').map(([place, byMonth]) => ({ ...choice.members[place], byMonth })).sort((a, b) => of(b, month)[basis] - of(a, month)[basis] || of(b, month).hours - of(a, month).hours);
    const order = Object.keys(all.labels), lines = charges(all.lines, 'line').map(([line, byMonth]) => ({ line, byMonth })).sort((a, b) => order.indexOf(a.line) - order.indexOf(b.line));
    const where = (one) => (one.cluster >= 0 ? ` · ${data.clusters[one.cluster]}` : ''), label = (one) => `${one.name}${where(one)}`;
    const drawn = named.slice(0, MOST_SERIES), rest = named.slice(MOST_SERIES), sumAt = (several) => months.map((at) => several.reduce((sum, one) => sum + of(one, at)[basis], 0));
    const series = drawn.map((one, place) => ({ name: label(one), color: SERIES[place], data: sumAt([one]) }));
    if (rest.length) series.push({ name: `${rest.length} others`, color: '#7d8894', data: sumAt(rest) });
    series.push({ name: 'charged to nobody', color: REST, data: sumAt(lines) });
    const isPart = (at) => [...named, ...lines].some((one) => of(one, at).unknown.has(basis)), labels = months.map((at) => `${at}${isPart(at) ? ' + ?' : ''}`);
    draw('teams-chart', `Chargeback by ${view.charged}, ${month}, ${code}: ${series.slice(0, 8).map((one) => `${one.name} ${fixed(one.data[months.indexOf(month)], 2)}`).join('; ')}`, {
      grid: { left: 56, right: 12, top: 28, bottom: 56 }, legend: { ...legend(), data: series.map((one) => one.name) },
      xAxis: axis({ type: 'category', data: labels, splitLine: { show: false } }),
      yAxis: axis({ type: 'value', name: code, nameTextStyle: { color: inks.soft, align: 'left' }, axisLabel: { color: inks.soft, formatter: compact } }),
      tooltip: { trigger: 'item', formatter: (point) => tipRows(point.name, [[point.marker, point.seriesName, `${fixed(point.value, 2)} ${code}`]]) },
      series: series.map((one) => ({ type: 'bar', stack: 'charges', name: one.name, data: one.data, itemStyle: { color: one.color }, barMaxWidth: 72 })),
    }, (point) => choose({ month: months[point.dataIndex] }));
    const charged = named.filter(isThere), shown = view.allCharged ? charged : charged.slice(0, MOST_CHARGED), left = charged.slice(shown.length), unheld = lines.filter(isThere);
    const sum = (several) => addCharges(several.map((one) => of(one, month))), text = (value, isPart) => (isPart ? (value ? `${fixed(value, 2)} + ?` : '?') : fixed(value, 2));
    const row = (name, one, kind) => ({ class: kind, cells: [name, Math.abs(one.hours) > NO_TIME ? hoursText(one.hours) : '', ...BASES.map(([name]) => text(one[name], one.unknown.has(name)))] });
    const isOpen = all.closed.month.some((at, i) => at === month && !all.closed.is_closed[i] && (view.measure === REPORTING || all.closed.currency[i] < 0 || data.currencies[all.closed.currency[i]] === code));
    const others = view.measure === REPORTING ? 0 : data.currencies.length - 1;
    table('teams-table', `${month}${isOpen ? ', not closed yet' : ''}, in ${code}${others ? `; ${others} other ${others === 1 ? 'currency is' : 'currencies are'} under “measured in”` : ''}`,
      [[view.charged, ''], ['GPU-hours', 'n'], ...BASES.map(([name, label]) => [label, name === basis ? 'n' : 'n wide'])], [
        ...shown.map((one) => row([isolated(one.name), where(one) ? element('span', { class: 'soft' }, isolated(where(one))) : null], of(one, month))),
        ...(left.length ? [row(`${left.length} others`, sum(left))] : []),
        ...(charged.length ? [row('Charged', sum(charged), 'sum')] : []),
        ...unheld.map((one) => row(all.labels[one.line], of(one, month), 'nobody')),
        ...(unheld.length ? [row('Charged to nobody', sum(unheld), 'sum')] : []),
        row('The whole month', sum([...charged, ...unheld]), 'sum'),
      ]);
    if (left.length) byId('teams-table').append(element('p', {}, element('button', { type: 'button', onclick: () => choose({ allCharged: true }) }, `show all ${charged.length}`)));
  }

  function showObserved() {
    const rows = data.coverage.rows, found = new Map();
    for (let i = 0; i < rows.day.length; i++) {
      if (view.cluster >= 0 && rows.cluster[i] !== view.cluster) continue;
      const key = `${rows.cluster[i]}:${rows.source[i]}`;
      if (!found.has(key)) found.set(key, { cluster: rows.cluster[i], source: rows.source[i], byDay: new Map(), expected: 0, covered: 0, landed: 0, quarantined: 0 });
      const one = found.get(key);
      if (rows.expected[i]) one.byDay.set(rows.day[i], rows.covered[i] / rows.expected[i]);
      if (rows.day[i] < view.from || rows.day[i] > view.to) continue;
      one.expected += (rows.expected[i] || 0) / TENTHOUSANDTH; one.covered += (rows.covered[i] || 0) / TENTHOUSANDTH;
      one.landed += rows.landed[i]; one.quarantined += rows.quarantined[i];
    }
    byId('observed-says').textContent = `Share of the time held that each source observed; the table is of ${daysText(view.from, view.to)}, what needs a look first.`;
    const all = [...found.values()], drawn = all.filter((one) => one.byDay.size).slice(0, MOST_SERIES);
    const name = (one) => `${data.coverage.sources[one.source]} · ${data.clusters[one.cluster]}`;
    const days = Array.from({ length: data.days }, (_, day) => day).filter((day) => day >= data.coverage.since);
    if (!drawn.length) empty('observed-chart', 'No source observes GPUs here.');
    else draw('observed-chart', `Coverage by day and source: ${drawn.map((one) => `${name(one)} ${one.expected ? percent(one.covered / one.expected) : '–'}`).join('; ')}`, {
      grid: { left: 48, right: 16, top: 12, bottom: 64 }, legend: { ...legend(), data: drawn.map(name) },
      xAxis: axis({ type: 'category', data: days.map(dayText), axisLabel: { color: inks.soft, hideOverlap: true, formatter: (text) => text.slice(5) }, splitLine: { show: false } }),
      yAxis: axis({ type: 'value', min: 0, max: 1, axisLabel: { color: inks.soft, formatter: (value) => `${Math.round(value * 100)}%` } }),
      tooltip: { trigger: 'item', formatter: (point) => tipRows(point.name, [[point.marker, point.seriesName, percent(point.value)]]) },
      series: drawn.map((one) => ({ type: 'line', name: name(one), symbolSize: 6, symbol: data.days > 60 ? 'none' : 'circle', data: days.map((day) => one.byDay.get(day) ?? null) })),
    });
    const coverage = (one) => (one.expected > 0 ? one.covered / one.expected : null);
    all.sort((a, b) => (a.landed > 0) - (b.landed > 0) || (coverage(a) ?? 2) - (coverage(b) ?? 2));
    table('observed-table', null, [['source', ''], ['observed', 'n'], ['rows landed', 'n wide'], ['quarantined', 'n']], all.map((one) => ({
      cells: [[isolated(data.coverage.sources[one.source]), element('span', { class: 'soft' }, ' · ', isolated(data.clusters[one.cluster])), one.landed ? null : element('span', { class: 'bad' }, ' silent')], coverage(one) === null ? '–' : percent(coverage(one)), fixed(one.landed, 0), fixed(one.quarantined, 0)],
    })));
  }

  /* controls */
  function choose(change) {
    Object.assign(view, change);
    refresh();
  }
  function showControls() {
    byId('presets').replaceChildren(...presets.map(([label, days]) => {
      const [from, to] = lastDays(days);
      return element('button', { type: 'button', 'aria-pressed': String(view.from === from && view.to === to), onclick: () => choose({ from, to }) }, label);
    }));
    for (const [id, day] of [['from', view.from], ['to', view.to]]) {
      byId(id).min = dayText(0); byId(id).max = dayText(lastDay); byId(id).value = dayText(day);
    }
    byId('cluster').value = String(view.cluster); byId('measure').value = String(view.measure); byId('theme').value = view.theme;
  }
  function refresh() {
    if (view.theme) document.documentElement.dataset.theme = view.theme; else delete document.documentElement.dataset.theme;
    readInks(); showControls(); writeAddress();
    for (const show of [showNet, showWaterfall, showGhosts, showActions, showMap, showUnits, showTeams, showObserved]) show();
  }
  function options(id, first, names) {
    byId(id).replaceChildren(element('option', { value: '-1' }, first), ...names.map((name, place) => element('option', { value: String(place) }, name)));
  }
  options('cluster', 'all', data.clusters); options('measure', 'GPU-hours', data.currencies);
  if (data.reporting) byId('measure').append(element('option', { value: String(REPORTING) }, `all money in ${data.reporting}`));
  for (const [id, key] of [['cluster', 'cluster'], ['measure', 'measure']]) byId(id).addEventListener('change', (event) => choose({ [key]: Number(event.target.value), filters: key === 'cluster' ? {} : view.filters }));
  byId('theme').addEventListener('change', (event) => choose({ theme: event.target.value }));
  byId('month').addEventListener('change', (event) => choose({ month: event.target.value }));
  for (const id of ['from', 'to']) byId(id).addEventListener('change', (event) => {
    const day = dayOf(event.target.value);
    if (!Number.isFinite(day)) return showControls();
    const kept = Math.min(Math.max(day, 0), lastDay);
    choose(id === 'from' ? { from: kept, to: Math.max(kept, view.to) } : { to: kept, from: Math.min(kept, view.from) });
  });
  byId('controls').addEventListener('submit', (event) => event.preventDefault());
  for (const place of document.querySelectorAll('[data-state]')) place.style.background = COLORS[place.dataset.state] || REST;
  byId('controls').hidden = false; content.hidden = false;
  readAddress(); refresh();
  document.documentElement.dataset.width = String(document.documentElement.scrollWidth);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', refresh);
  let resizing;
  addEventListener('resize', () => { clearTimeout(resizing); resizing = setTimeout(() => Object.values(charts).forEach((chart) => chart.resize()), 100); });
  let themeBefore = null;
  addEventListener('beforeprint', () => { themeBefore = view.theme; view.theme = 'light'; refresh(); });
  addEventListener('afterprint', () => { if (themeBefore !== null) choose({ theme: themeBefore }); themeBefore = null; });
})();
