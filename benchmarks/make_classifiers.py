"""Train the classifiers that are shipped with the package: `python benchmarks/make_classifiers.py`

They judge the demo's factors, which would otherwise have to wait for one to be trained. A set that is drawn differently
by another version of a library has another name, and its classifier is trained where it is needed.
"""

from diskoop.data import open_data
from diskoop.evaluation.classifiers import SHIPPED, classifier_file, save_classifier, train_classifier
from diskoop.settings import Settings

PRESETS = ("demo",)  # whose data have a shipped classifier


def main() -> None:
    for file in SHIPPED.glob("*.safetensors"):
        file.unlink()
    for preset in PRESETS:
        settings = Settings.load(preset).data
        everything = open_data(settings)
        classifier = train_classifier(everything)
        print(classifier.describe())
        print(classifier.check_accuracy(settings))
        path = SHIPPED / classifier_file(everything)
        save_classifier(path, classifier)
        print(f"wrote {path}, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
