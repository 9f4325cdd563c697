"""Table 1: polyphonic music, negative log-likelihood per time step, by SGD, SGD+C and SGD+CR.

The runs are cells of the grid `steadygrad.sweep.named.table1`; `natural_tables` sets their figures beside these.
"""

from __future__ import annotations

from steadygrad.paper.natural_tables import PaperTable, Printed

TABLE = PaperTable(
    name="table1",
    title="Polyphonic music (Table 1)",
    figures="negative log-likelihood per time step",
    claim=(
        "SGD-CR improves on the state of the art for RNNs on all the polyphonic music prediction tasks except MuseData, "
        "where it is equal to it; clipping improves both the training and the test error in general (section 4.2)."
    ),
    blocks=(
        Printed("Piano-midi.de", "piano-midi", 1, train=(6.87, 6.81, 7.01), test=(7.56, 7.53, 7.46)),
        Printed("Nottingham", "nottingham", 1, train=(3.67, 3.21, 3.24), test=(3.80, 3.48, 3.46)),
        Printed("MuseData", "musedata", 1, train=(8.25, 6.54, 6.51), test=(7.11, 7.00, 6.99)),
    ),
)
