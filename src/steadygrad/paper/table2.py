"""Table 2: the characters of the Penn Treebank, bits per character, the next one and the fifth ahead.

The paper has no figure of SGD for five steps ahead. The runs are cells of the grid `steadygrad.sweep.named.table2`;
`natural_tables` sets their figures beside these.
"""

from __future__ import annotations

from steadygrad.paper.natural_tables import PaperTable, Printed

TABLE = PaperTable(
    name="table2",
    title="Penn Treebank characters (Table 2)",
    figures="bits per character",
    claim=(
        "To predict the fifth character ahead, long-term correlations are more important than short-term ones, and the "
        "regularization term should be more helpful (section 4.2)."
    ),
    blocks=(
        Printed("1 step", "ptb", 1, train=(1.46, 1.34, 1.36), test=(1.50, 1.42, 1.41)),
        Printed("5 steps", "ptb", 5, train=(None, 3.76, 3.70), test=(None, 3.89, 3.74)),
    ),
)
