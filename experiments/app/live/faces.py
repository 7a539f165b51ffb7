"""OpenCV, periodic: faces.py JOBS PERIOD SEED, the period in seconds (0: no pauses).

A job looks for faces in a picture of 560x420 and writes one line. The pictures are of our own: smooth noise with darker
and lighter ellipses, so that the cascade's later stages are reached. A job that has run over later releases goes on with
the first one that is still to come.
"""
import os
import sys
import time

import cv2
import numpy

jobs, period, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
cv2.setNumThreads(1)
cascade = cv2.CascadeClassifier("/usr/share/opencv4/haarcascades/haarcascade_frontalface_default.xml")
random = numpy.random.default_rng(seed)
pictures = []
for _ in range(64):
    small = random.integers(0, 256, (15, 20), dtype=numpy.uint8)
    picture = cv2.resize(small, (560, 420), interpolation=cv2.INTER_CUBIC)
    for _ in range(6):
        centre = (int(random.integers(30, 530)), int(random.integers(30, 390)))
        size = int(random.integers(12, 40))
        cv2.ellipse(picture, centre, (size, int(size * 1.3)), 0, 0, 360, 190, -1)
        for side in (-1, 1):
            cv2.circle(picture, (centre[0] + side * size // 2, centre[1] - size // 3), size // 6, 40, -1)
        cv2.ellipse(picture, (centre[0], centre[1] + size // 2), (size // 2, size // 8), 0, 0, 360, 70, -1)
    pictures.append(picture)
for job in range(jobs):
    if period > 0:
        time.sleep(period - time.time() % period)
    found = cascade.detectMultiScale(pictures[job % len(pictures)], 1.1, 3)
    os.write(1, b"%d\n" % sum(int(number) for face in found for number in face))
