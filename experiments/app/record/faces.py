"""OpenCV: Haar face detection in a picture of 560x420 per job; one line is written at the end of each job."""
import os
import sys

import cv2
import numpy

cv2.setNumThreads(1)
cascade = cv2.CascadeClassifier("/usr/share/opencv4/haarcascades/haarcascade_frontalface_default.xml")
random = numpy.random.default_rng(1)
# Pictures of our own: smooth noise with darker and lighter ellipses, so that the cascade's later stages are reached.
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
for job in range(int(sys.argv[1])):
    found = cascade.detectMultiScale(pictures[job % len(pictures)], 1.1, 3)
    os.write(1, b"%d\n" % len(found))
