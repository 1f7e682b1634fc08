"""`python -m diskoop` is `diskoop`"""

from diskoop.interfaces.cli import main

if __name__ == "__main__":
    main()
