// How the search of the built documentation orders what it has found. All values but
// `score` are Sphinx's own; pages of background come behind all others.
var BACKGROUND = /^(decisions\/|papers$)/;

var Scorer = {
  score: ([docname, title, anchor, descr, score]) =>
    BACKGROUND.test(docname) ? score - 1000 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
