"""A seeded R-MAT graph, as lines `from<TAB>to`: rmat.py SCALE EDGES-PER-VERTEX FILE.

Probabilities 0.57, 0.19, 0.19, 0.05.
"""
import sys
import numpy
scale, degree, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
random = numpy.random.default_rng(1)
edges = degree << scale
source = numpy.zeros(edges, dtype=numpy.int64)
target = numpy.zeros(edges, dtype=numpy.int64)
for _ in range(scale):
    draw = random.random(edges)
    source = 2 * source + (draw >= 0.76)
    target = 2 * target + (((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95))
numpy.savetxt(name, numpy.stack([source, target], axis=1), fmt="%d", delimiter="\t")
