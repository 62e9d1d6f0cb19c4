-- Scores of `held:<session>` stand in bands: work by sinceAt; one width higher, what goes with a broken socket like work
-- but is nobody's work; from `kept` on, what a broken socket alone does not end. A score modulo the width is sinceAt again.
local bands = { width = 500000000000000, kept = 1000000000000000 }
